"""Three recordings that ``stallscope capture`` made of one training script on an H200 tell the same story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers.model import EventKind
from parsers.model.names.kernels import base_name
from tests.opened import opened
from viewer.capture.next_recording import kernel_recording
from viewer.cli import main

FIXTURES = Path(__file__).parent.parent / "fixtures" / "capture"
TIMELINES = ("h200_train.pt.trace.json.gz", "h200_train.nsys.sqlite.gz")


@pytest.mark.parametrize("name", TIMELINES)
def test_each_timeline_has_the_three_recorded_steps_and_blames_the_loader(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--json", str(FIXTURES / name)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [step["name"] for step in told["steps"] if step["steady"]] == [
        f"ProfilerStep#{n}" for n in FOUND[name]
    ]
    assert told["crashed"] == {}
    idle = told["devices"][0]["budget"]["idle_ns"]
    assert max(idle, key=lambda cause: idle[cause]) == "input-bound"
    assert {"input-bound", "memory-bound-kernels"} <= {
        finding["category"] for finding in told["findings"] if finding["severity"] in ("high", "medium")
    }


FOUND = {TIMELINES[0]: (4, 5, 6), TIMELINES[1]: (5, 6, 7)}


def test_both_timelines_ran_the_same_kernels() -> None:
    counts = []
    for name in TIMELINES:
        trace = opened(FIXTURES / name)
        counts.append(sum(1 for event in trace.events.name if "layer_norm_kernel" in trace.strings[event]))
    assert counts[0] == counts[1] > 0


def test_the_profiled_kernels_are_named_as_on_the_timeline() -> None:
    profiled = {base_name(kernel.name) for kernel in opened(FIXTURES / "h200_train.ncu.raw.csv.gz").kernels}
    timeline = {base_name(text) for text in opened(FIXTURES / TIMELINES[0]).strings}
    assert len(profiled) > 3
    assert profiled <= timeline


def test_a_kernel_is_profiled_by_its_place_in_the_step_whichever_step_it_was_picked_in() -> None:
    trace = opened(FIXTURES / TIMELINES[0])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    named = [int(event) for event in kernels if "layer_norm_kernel" in trace.name(int(event))]
    requests = [kernel_recording(trace, event) for event in named]
    assert [request.ncu.launch_skip for request in requests] == 3 * list(range(len(named) // 3))
    assert {request.ncu.range for request in requests} == {"steps"}
    assert {request.ncu.kernel_name for request in requests} == {"vectorized_layer_norm_kernel"}


def test_every_instance_of_a_template_counts_because_ncu_compares_the_functions_name() -> None:
    trace = opened(FIXTURES / TIMELINES[0])
    kernels = trace.events.of_kind(EventKind.KERNEL)
    picked = [
        int(each) for each in kernels if base_name(trace.name(int(each))) == "vectorized_elementwise_kernel"
    ]
    assert len({trace.name(each) for each in picked}) > 1
    first_step = picked[: len(picked) // 3]
    assert [kernel_recording(trace, each).ncu.launch_skip for each in first_step] == list(
        range(len(first_step))
    )
