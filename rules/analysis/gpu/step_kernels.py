"""Whether slow steps launch other kernels than the rest, or the same ones that take longer."""

from __future__ import annotations

from enum import Enum

import numpy as np

from parsers.model import I64, Attribute, EventKind
from parsers.model.arrays import Array, median_of
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.inside_window import operations
from rules.analysis.steps.steps import Step

COMPUTED = 0.8  # of what slow steps take longer


class Work(Enum):
    """What the GPU does in slow steps, compared to the others."""

    UNKNOWN = "not that the GPU computes for longer"
    OTHER = "other kernels, or more of them"
    SAME_KERNELS = "the same kernels as often, on what is unknown"
    SAME = "the same kernels as often, with as many blocks"

    @property
    def is_other(self) -> bool:
        """Whether slow steps do something that others do not, as far as is known."""
        return self in (Work.UNKNOWN, Work.OTHER)


def work_of(analysis: Analysis, slow: list[Step], typical: list[Step], usual: float) -> Work:
    """What keeps the GPU busy for longer than in a usual step."""
    devices = [
        device
        for device in analysis.active_devices
        if slow[0].rank is None or analysis.trace.devices[device].rank == slow[0].rank
    ]
    if not _computes_longer(analysis, devices, slow, usual):
        return Work.UNKNOWN
    found = {_compared(analysis, device, slow, typical) for device in devices}
    return next(each for each in (Work.OTHER, Work.SAME_KERNELS, Work.SAME) if each in found)


def _computes_longer(analysis: Analysis, devices: list[int], slow: list[Step], usual: float) -> bool:
    """Whether kernels take nearly all of what these steps take above the median."""
    extra = sum(step.duration - usual for step in slow)
    computed = [
        [analysis.budget(device, step.start, step.end).compute_ns for step in analysis.steady_steps]
        for device in devices
    ]
    middle = [float(median_of(each)) for each in computed]
    more = sum(
        max(
            (
                analysis.budget(device, step.start, step.end).compute_ns - usually
                for device, usually in zip(devices, middle, strict=True)
            ),
            default=0.0,
        )
        for step in slow
    )
    return more >= COMPUTED * extra


def _compared(analysis: Analysis, device: int, slow: list[Step], typical: list[Step]) -> Work:
    """Each slow step with all the others."""
    trace, blocks = analysis.trace, Attribute.GRID
    usual = [_kernels(analysis, device, step) for step in typical]
    names = {_sorted(trace.events.name[kernels]) for kernels in usual}
    whole = {
        (_sorted(trace.events.name[kernels]), _sorted(trace.attribute(blocks, kernels))) for kernels in usual
    }
    work = Work.SAME
    for step in slow:
        kernels = _kernels(analysis, device, step)
        name, size = _sorted(trace.events.name[kernels]), trace.attribute(blocks, kernels)
        if name not in names or (size.any() and (name, _sorted(size)) not in whole):
            return Work.OTHER
        if not size.all():
            work = Work.SAME_KERNELS
    return work


def _sorted(column: Array) -> bytes:
    return np.sort(column).tobytes()


def _kernels(analysis: Analysis, device: int, step: Step) -> I64:
    """Those that start in a step."""
    return operations(analysis, device, EventKind.KERNEL, within=(step.start, step.end))
