"""Metrics of kernels that nvprof counted and printed, without any times."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.model import Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.results import Cell

_METRIC = "Metric Name"
_PERCENT = regex(r"(\d{1,9}(?:\.\d{1,9})?)%")
_LEVEL = regex(r"\w+ \((\d{1,2})\)")  # "High (7)"
_ALL_LEVELS = 10.0
_RATIOS = frozenset({"achieved_occupancy"})  # which are printed without a unit


@dataclass(frozen=True, slots=True)
class CountedKernel:
    """One kernel and its metrics that are parts of a whole, from 0 to 1, on average over its launches."""

    name: str
    parts: Mapping[str, float]


@derived
def counted_kernels(trace: Trace) -> tuple[CountedKernel, ...]:
    """The kernels of all tables of metrics in their order, each once: what a later table says of it counts."""
    found: dict[str, dict[str, float]] = {}
    for table in trace.tables:
        columns = (table.column(name) for name in ("Kernel", _METRIC, "Avg"))
        are_percent = any(each.name == "Avg" and each.unit == "%" for each in table.columns)
        for kernel, metric, average in zip(*columns, strict=False):
            parts = found.setdefault(str(kernel), {})
            part = _part(str(metric), average, are_percent)
            if part is not None:
                parts[str(metric)] = part
    return tuple(CountedKernel(name, parts) for name, parts in found.items())


def _part(metric: str, average: Cell, is_percent: bool) -> float | None:
    if isinstance(average, float):
        return average / 100.0 if is_percent else average if metric in _RATIOS else None
    if percent := _PERCENT.fullmatch(average or ""):
        return float(percent[1]) / 100.0
    if level := _LEVEL.fullmatch(average or ""):
        return float(level[1]) / _ALL_LEVELS
    return float(average) if metric in _RATIOS and average and average.replace(".", "", 1).isdigit() else None
