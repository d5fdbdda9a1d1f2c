"""What the card beside the cursor says: the short name first, the whole name below it."""

from __future__ import annotations

import numpy as np

from parsers.model import Device, EventKind, Lane, LaneKind
from parsers.model.builder import TraceBuilder
from viewer.timeline.geometry.drawing_index import build_index
from viewer.timeline.hover import event_text
from viewer.timeline.scene import Scene

WHOLE = "void at::native::(anonymous namespace)::layer_norm_kernel<float>(int, float const*)"


def card_of(name: str, kind: EventKind) -> tuple[str, str]:
    builder = TraceBuilder()
    device = builder.device(Device(0, "NVIDIA H200"))
    gpu = Lane(LaneKind.GPU_STREAM, "GPU 0 stream 7", device=device, stream=7)
    lane = builder.lane(gpu if kind is EventKind.KERNEL else Lane(LaneKind.PYTHON, "main Python", thread=1))
    builder.add(np.array([0]), np.array([12_000]), builder.string(name), lane, kind)
    trace = builder.build()
    return event_text(Scene(trace, build_index(trace)), 0, 0.0)


def test_a_kernel_is_called_by_its_own_name_and_its_whole_name_follows() -> None:
    title, body = card_of(WHOLE, EventKind.KERNEL)
    assert title == "layer_norm_kernel"
    assert body.startswith("12.0 us")
    assert body.endswith(WHOLE)


def test_a_name_that_is_short_already_is_said_once() -> None:
    title, body = card_of("Memset (Device)", EventKind.MEMSET)
    assert title == "Memset (Device)"
    assert "Memset" not in body


def test_a_python_frame_is_called_by_its_function() -> None:
    title, body = card_of("torch/optim/adam.py(214): step", EventKind.PYTHON)
    assert title == "step (adam.py:214)"
    assert body.endswith("torch/optim/adam.py(214): step")
