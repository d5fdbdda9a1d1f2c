"""What parsers of many tools state alike: the shape of launches, and what kinds of activity were recorded."""

from __future__ import annotations

from dataclasses import replace

from parsers.model import I64, Attribute, LaneKind
from parsers.model.arrays import per_value
from parsers.model.builder import TraceBuilder

_SHAPES = {Attribute.GRID: Attribute.GRID_SHAPE, Attribute.BLOCK: Attribute.BLOCK_SHAPE}
_ON_CPU = frozenset({LaneKind.REGION, LaneKind.CPU_THREAD, LaneKind.PYTHON})


def state_shape(builder: TraceBuilder, which: Attribute, events: I64, sizes: I64) -> None:
    """State the grid or the block of launches: ``sizes`` has a row (x, y, z) for each."""
    builder.attribute(which, events, sizes.prod(axis=1))
    texts = per_value(sizes, lambda axes: builder.string(",".join(map(str, axes))))
    builder.attribute(_SHAPES[which], events, texts)


def state_capture(builder: TraceBuilder) -> None:
    """State whether work of the CPU and calls of the GPU's interface were recorded, by the lanes."""
    kinds = {lane.kind for lane in builder.lanes}
    builder.capture = replace(
        builder.capture,
        has_cpu_events=not kinds.isdisjoint(_ON_CPU),
        has_api_calls=LaneKind.CUDA_API in kinds,
    )
