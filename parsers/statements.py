"""What parsers of many tools state alike: the shape of launches, which failed, and what activity was recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from parsers.model import I32, I64, Attribute, Effect, LaneKind
from parsers.model.arrays import per_value
from parsers.model.builder import TraceBuilder
from parsers.model.names.calls import error_text, launches_work

_SHAPES = {Attribute.GRID: Attribute.GRID_SHAPE, Attribute.BLOCK: Attribute.BLOCK_SHAPE}
_ON_CPU = frozenset({LaneKind.REGION, LaneKind.CPU_THREAD, LaneKind.PYTHON})


def state_shape(builder: TraceBuilder, which: Attribute, events: I64, sizes: I64) -> None:
    """State the grid or the block of launches: ``sizes`` has a row (x, y, z) for each."""
    builder.attribute(which, events, sizes.prod(axis=1))
    texts = per_value(sizes, lambda axes: builder.string(",".join(map(str, axes))))
    builder.attribute(_SHAPES[which], events, texts)


def state_failed_launches(builder: TraceBuilder, events: I64, names: I32, errors: I64) -> None:
    """State which launches returned an error; ``names`` are indices of the builder's strings.

    Others return what is no failure: a query says that something has not ended yet.
    """
    failed = np.flatnonzero(errors)
    if not len(failed):
        return
    failed = failed[per_value(names[failed], lambda name: launches_work(builder.strings[name]), np.bool_)]
    builder.attribute(Attribute.ERROR, events[failed], errors[failed])
    for error, count in Counter(errors[failed].tolist()).items():
        builder.quality.note(
            f"failed launches: {error}",
            Effect.NOTED,
            f"A launch failed with {error_text(error)}, so it ran nothing.",
            count=count,
        )


def state_capture(builder: TraceBuilder) -> None:
    """State whether work of the CPU and calls of the GPU's interface were recorded, by the lanes."""
    kinds = {lane.kind for lane in builder.lanes}
    builder.capture = replace(
        builder.capture,
        has_cpu_events=not kinds.isdisjoint(_ON_CPU),
        has_api_calls=LaneKind.CUDA_API in kinds,
    )
