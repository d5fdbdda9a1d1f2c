"""The unit that the name of a metric implies, for reports, which store none."""

from __future__ import annotations

import re
from functools import lru_cache

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
