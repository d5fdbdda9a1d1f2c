"""Modules of a model as Python frames name them: calls, time on the CPU and on the GPU."""

from __future__ import annotations

from dataclasses import fields

from parsers.model import LaneKind, Trace, derived
from parsers.model.names.per_name import named
from viewer.statistics.operators import OperatorTimes, nested_times

MODULE = "nn.Module: "


@derived
def module_times(trace: Trace) -> OperatorTimes:
    """Times of every call of a module; ``cpu_self`` and ``gpu_self`` are without any inner frame."""
    found = nested_times(trace, LaneKind.PYTHON)
    mine = named(trace, found.event, lambda name: name.startswith(MODULE))
    return OperatorTimes(**{each.name: getattr(found, each.name)[mine] for each in fields(OperatorTimes)})
