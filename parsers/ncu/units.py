"""Units of metrics: what a page prints, the base unit it stands for, and the unit a metric's name implies."""

from __future__ import annotations

import re
from functools import lru_cache

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_NANOSECONDS = {
    "ns": 1.0,
    "nsecond": 1.0,
    "us": 1e3,
    "usecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "s": 1e9,
    "sec": 1e9,
    "second": 1e9,
    "minute": 60e9,
}
_COUNTED = r"byte|bytes|B|hz|Hz|cycle|cycles|inst|sector|sectors|request|requests|warp|thread|block|flop"
_SCALED = re.compile(rf"(?P<prefix>[kKMGTP]?|Ki|Mi|Gi|Ti)(?P<unit>{_COUNTED})")
_SAME = {
    "bytes": "byte",
    "B": "byte",
    "Hz": "hz",
    "cycles": "cycle",
    "sectors": "sector",
    "requests": "request",
}


@lru_cache(maxsize=4096)
def base_unit(unit: str) -> tuple[float, str]:
    """Factor and name of the base unit: ("Kbyte/block") -> (1000, "byte/block"), ("ms") -> (1e6, "ns").

    Times become ns, rates become per second, amounts lose their prefix; unknown units stay as they are.
    """
    unit = unit.strip()
    numerator, slash, denominator = unit.partition("/")
    factor, name = _amount(numerator)
    if not slash:
        return factor, name
    if denominator in _NANOSECONDS:
        return factor * 1e9 / _NANOSECONDS[denominator], f"{name}/s"
    below, below_name = _amount(denominator)
    if numerator == "%":  # the tool multiplies here, so that its own reports and its pages agree
        below = 1.0 / below
    return factor / below, f"{name}/{below_name}"


def _amount(unit: str) -> tuple[float, str]:
    if unit in _NANOSECONDS:
        return _NANOSECONDS[unit], "ns"
    if scaled := _SCALED.fullmatch(unit):
        prefix = scaled["prefix"]
        factor = _BINARY[prefix] if prefix in _BINARY else _DECIMAL[prefix]
        return factor, _SAME.get(scaled["unit"], scaled["unit"])
    return 1.0, unit


_BY_NAME = (
    (re.compile(r"shared_mem_per_block"), "byte/block"),
    (re.compile(r"registers_per_thread"), "register/thread"),
    (re.compile(r"\.pct(_of_peak_\w+)?$|_pct$|\.pct_of_peak"), "%"),
    (re.compile(r"__time\w*(\.(sum|avg|min|max))?$|interval_time$"), "ns"),
    (re.compile(r"bytes\w*\.(sum|avg|min|max)\.per_second$"), "byte/s"),
    (re.compile(r"bytes\w*\.(sum|avg|min|max)\.peak_sustained$"), "byte/cycle"),
    (re.compile(r"cycles_elapsed\w*\.(sum|avg|min|max)\.per_second$"), "hz"),
    (re.compile(r"sectors\w*\.(sum|avg|min|max)\.per_second$"), "sector/s"),
    (re.compile(r"average_data_bytes_per_sector"), "byte/sector"),
    (re.compile(r"\.per_second$"), "1/s"),
    (re.compile(r"inst_executed\w*\.(sum|avg|min|max)\.(per_cycle\w*|peak_sustained)$"), "inst/cycle"),
    (re.compile(r"\.per_cycle\w*$|\.peak_sustained$"), "1/cycle"),
    (re.compile(r"average_warp\w*latency\w*\.ratio$|_per_inst_executed\.ratio$"), "cycle"),
    (re.compile(r"\.ratio$"), ""),
    (re.compile(r"bytes|shared_mem_config_size|l2_cache_size"), "byte"),
    (re.compile(r"cycles(_active|_elapsed)?\w*(\.(sum|avg|min|max))?$"), "cycle"),
    (re.compile(r"sectors"), "sector"),
    (re.compile(r"requests"), "request"),
    (re.compile(r"thread_count$"), "thread"),
    (re.compile(r"inst_(executed|issued)"), "inst"),
    (re.compile(r"occupancy_limit"), "block"),
    (re.compile(r"warps"), "warp"),
)


@lru_cache(maxsize=16384)
def unit_of_metric(metric: str) -> str:
    """The base unit that a metric's name implies, for reports, which store none; "" when it implies none."""
    if metric.startswith(("device__attribute", "launch__occupancy_per")):
        return ""
    return next((unit for pattern, unit in _BY_NAME if pattern.search(metric)), "")
