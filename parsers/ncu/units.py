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


_WHOLE_NAME = (
    (re.compile(r"shared_mem_per_block"), "byte/block"),
    (re.compile(r"registers_per_thread"), "register/thread"),
    (re.compile(r"\.pct$|_pct$|\.pct_of_peak"), "%"),
    (re.compile(r"average_data_bytes_per_sector"), "byte/sector"),
    (re.compile(r"latency_per_inst_issued\.ratio$|warps_active_per_inst_executed\.ratio$"), "cycle"),
    (re.compile(r"issue_stalled\w*\.ratio$"), "inst"),
    (re.compile(r"\.ratio$|per_opcode"), ""),
    (re.compile(r"time_duration|interval_time$"), "ns"),
    (re.compile(r"occupancy_limit"), "block"),
    (re.compile(r"thread_count$"), "thread"),
)
_QUANTITY = (
    (re.compile(r"bytes|shared_mem_config_size|l2_cache_size"), "byte"),
    (re.compile(r"sectors"), "sector"),
    (re.compile(r"cycles_(active|elapsed)|_active$|interval_cycles$"), "cycle"),
    (re.compile(r"warps"), "warp"),
    (re.compile(r"inst_(executed|issued)|^inst_executed"), "inst"),
)
_ROLLUP = re.compile(r"^(?P<stem>[^.]+(?:\.Triage\w+\.[^.]+)?)(?:\.(?:sum|avg|min|max))?(?:\.(?P<per>\w+))?$")


@lru_cache(maxsize=16384)
def unit_of_metric(metric: str) -> str:
    """The base unit that a metric's name implies, for reports, which store none; "" when it implies none."""
    if metric.startswith(("device__attribute", "launch__occupancy_per", "breakdown:", "group:")):
        return ""
    for pattern, unit in _WHOLE_NAME:
        if pattern.search(metric):
            return unit
    parts = _ROLLUP.match(metric)
    if parts is None:
        return ""
    quantity = next((unit for pattern, unit in _QUANTITY if pattern.search(parts["stem"])), "")
    per = parts["per"] or ""
    if per == "per_second":
        return "hz" if quantity == "cycle" else f"{quantity}/s" if quantity else ""
    if per.startswith(("per_cycle", "peak_sustained")):
        return f"{quantity}/cycle" if quantity and quantity != "cycle" else ""
    return quantity
