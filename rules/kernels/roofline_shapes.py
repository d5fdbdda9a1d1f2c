"""Roofline points of matrix, convolution and attention operators, estimated from the shapes of their inputs."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.model import EventKind, Trace
from rules.kernels.gpu_peaks import SHOWN, GpuPeaks, peaks_of
from rules.kernels.operator_roofs import operator_roofs, precision_of, shown_shapes
from rules.kernels.roofline import Point, Roof, Roofline

MOST_SHAPES = 2000


def estimated_roofline(trace: Trace, longest_kernel: str | None = None) -> Roofline:
    """One point for each operator and shape, at the level of DRAM, all marked as estimates, the longest first.

    With ``longest_kernel`` only of operators whose longest kernel has this name.

    Operations follow from the shapes; bytes count every input and output once, so the true intensity is lower.
    Needs shapes, CPU operators and launches in the recording; empty without them.
    """
    rows = operator_roofs(trace, trace.events.of_kind(EventKind.KERNEL), longest_kernel=longest_kernel)
    points = tuple(
        Point(
            row.name,
            f"{row.name} {shown_shapes(row.dims)}",
            "DRAM",
            SHOWN[precision_of(row.dtype, trace.name(row.kernel))],
            row.work.operations / row.work.moved,
            row.work.operations * row.calls / row.ns * 1e9,
            float(row.ns),
            estimate=True,
            event=row.event,
        )
        for row in rows
        if row.work is not None and row.work.operations and row.ns
    )
    return Roofline(points[:MOST_SHAPES], _roofs(trace, points))


def _roofs(trace: Trace, points: Sequence[Point]) -> tuple[Roof, ...]:
    device = next((each for each in trace.devices if each.name), None)
    peaks: GpuPeaks | None = peaks_of(device.name) if device else None
    if device is None:
        return ()
    roofs = []
    bandwidth = device.memory_bandwidth or (peaks.bandwidth if peaks else None)
    if bandwidth:
        roofs.append(Roof("DRAM", bandwidth, True, from_table=device.memory_bandwidth is None))
    used = {point.precision for point in points} | {"FP32"}
    for precision, peak in peaks.operations.items() if peaks else ():
        if SHOWN[precision] in used:
            roofs.append(Roof(SHOWN[precision], peak, False, from_table=True))
    return tuple(roofs)
