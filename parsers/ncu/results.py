"""One profiled launch of a binary report: identity, metrics, instances, and the verdicts stored with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from math import isfinite, prod

from parsers.model.kernels import Dim3, KernelProfile, MetricValue, RuleResult
from parsers.model.late import dataclass, regex
from parsers.ncu.instructions import Code, Counts, counts_from, counts_instructions, counts_of
from parsers.ncu.numbers import Instances, whole_number
from parsers.protobuf.wire import Damaged, fields, float32, float64, integer, message, text

_WHOLE_NAME = (
    (regex(r"shared_mem_per_block"), "byte/block"),
    (regex(r"registers_per_thread"), "register/thread"),
    (regex(r"\.pct$|_pct$|\.pct_of_peak"), "%"),
    (regex(r"average_data_bytes_per_sector"), "byte/sector"),
    (regex(r"latency_per_inst_issued\.ratio$|warps_active_per_inst_executed\.ratio$"), "cycle"),
    (regex(r"issue_stalled\w*\.ratio$"), "inst"),
    (regex(r"\.ratio$|per_opcode"), ""),
    (regex(r"time_duration|interval_time$"), "ns"),
    (regex(r"occupancy_limit"), "block"),
    (regex(r"thread_count$"), "thread"),
)
_QUANTITY = (
    (regex(r"bytes|shared_mem_config_size|l2_cache_size"), "byte"),
    (regex(r"sectors"), "sector"),
    (regex(r"cycles_(active|elapsed)|_active$|interval_cycles$"), "cycle"),
    (regex(r"warps"), "warp"),
    (regex(r"inst_(executed|issued)|^inst_executed"), "inst"),
)
_ROLLUP = regex(r"^(?P<stem>[^.]+(?:\.Triage\w+\.[^.]+)?)(?:\.(?:sum|avg|min|max))?(?:\.(?P<per>\w+))?$")


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


MAX_INSTANCES = 200_000
_MESSAGE_KINDS = {0: "info", 1: "info", 2: "warning", 3: "error", 4: "optimization"}
_LOCAL, _GLOBAL = 1, 2
_DOUBLE_KEY = 3 << 3 | 1  # field 3, 64 bits wide
_MARKUP = regex(r"@(?:section|source|metric):[^@:]*:(?P<label>[^@]*)@|@\w+:(?P<rest>[^@]*)@")
_URL_MARKUP = regex(r"@url:(?P<label>[^@]*?):(?P<url>https?://[^@]*)@")


@dataclass(slots=True)
class Result:
    """A result before its metrics are named: the string table may be complete only at the end of the file."""

    function_name: str = ""
    demangled_name: str = ""
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    context: int | None = None
    stream: int | None = None
    metrics: list[tuple[int, MetricValue | None, Instances]] = field(default_factory=list)
    rules: list[RuleResult] = field(default_factory=list)
    counts: dict[int, Counts] = field(default_factory=dict)  # by the number of the metric's name
    code: int = 0
    damaged_parts: int = 0

    def build(
        self,
        ident: str,
        names: Sequence[str],
        process: int | None,
        process_name: str,
        device_names: Sequence[str],
        code: Code,
    ) -> KernelProfile:
        """The profile, with metric names from the string table and its instructions from ``code``."""
        metrics: dict[str, MetricValue] = {}
        instances: dict[str, Instances] = {}
        for name_id, value, series in self.metrics:
            if name_id >= len(names):
                self.damaged_parts += 1
                continue
            name = names[name_id]
            if value is not None:
                metrics[name] = value
            if series and keeps_instances(name):
                instances[name] = series
            elif series and counts_instructions(name):
                self.counts[name_id] = counts_from(series)
        device = whole_number(metrics.get("launch__device_id", metrics.get("device__attribute_device_index")))
        shown = metrics.get("device__attribute_display_name")
        if not isinstance(shown, str):
            shown = device_names[device or 0] if (device or 0) < len(device_names) else None
        major = whole_number(metrics.get("device__attribute_compute_capability_major"))
        minor = whole_number(metrics.get("device__attribute_compute_capability_minor"))
        return KernelProfile(
            id=ident,
            name=self.demangled_name or self.function_name,
            grid=_in_blocks(self.grid, self.block, metrics.get("launch__grid_size")),
            block=self.block,
            device=device,
            compute_capability=None if major is None else (major, minor or 0),
            context=self.context,
            stream=self.stream,
            process=process,
            process_name=process_name,
            metrics=metrics,
            units=units_of(tuple(metrics)),
            instances=instances,
            rule_results=tuple(self.rules),
            device_name=shown,
            source=code.source_of(
                self.code, {names[number]: counts for number, counts in self.counts.items()}
            ),
        )


def _in_blocks(grid: Dim3, block: Dim3, blocks: MetricValue | None) -> Dim3:
    """The grid in blocks, which old reports give in threads, as the counter of its blocks then says."""
    counted = whole_number(blocks)
    if not counted or prod(grid) == counted or prod(grid) != counted * prod(block):
        return grid
    x, y, z = (max(threads // max(of_block, 1), 1) for threads, of_block in zip(grid, block, strict=True))
    return x, y, z


@lru_cache(maxsize=4)
def units_of(metrics: tuple[str, ...]) -> dict[str, str]:
    """Metric -> unit where the name implies one; one mapping for all launches with the same metrics."""
    return {name: unit for name in metrics if (unit := unit_of_metric(name))}


def keeps_instances(metric: str) -> bool:
    """Whether the parts of a metric are kept as they are: opcodes and occupancy curves, not samples over time."""
    return metric.startswith(("sass__", "launch__occupancy_per"))


def read_result(data: memoryview, names: Sequence[str] = ()) -> Result:
    """A launch; parts of it that are damaged are left out and counted. Raises ``Damaged`` when all is.

    Instances that are not kept are not even read where ``names``, as far as it is known, already tells so.
    """
    result = Result()
    by_instruction: list[tuple[int, memoryview]] = []
    for number, _, value in fields(data):
        try:
            _take(result, number, value, names)
            if number == 13 and counts_instructions(_name(result.metrics[-1][0], names)):
                by_instruction.append((result.metrics[-1][0], message(value)))
        except Damaged:
            result.damaged_parts += 1
    ids = [name_id for name_id, _ in by_instruction]
    result.counts = dict(zip(ids, counts_of([each for _, each in by_instruction]), strict=True))
    return result


def _name(name_id: int, names: Sequence[str]) -> str:
    return names[name_id] if name_id < len(names) else ""


def _take(result: Result, number: int, value: int | memoryview, names: Sequence[str]) -> None:
    if number == 13:
        result.metrics.append(_metric(message(value), names))
    elif number == 19:
        result.rules += _rule(message(value))
    elif number == 6:
        result.function_name = text(value)
    elif number == 7:
        result.demangled_name = text(value)
    elif number == 10:
        result.grid = _dim3(message(value))
    elif number == 11:
        result.block = _dim3(message(value))
    elif number == 15:
        result.code = next((integer(each) for at, _, each in fields(message(value)) if at == 1), 0)
    elif number == 22:
        result.context = integer(value)
    elif number == 23:
        result.stream = integer(value)


def read_group(data: memoryview, kind: str, names: Sequence[str] = ()) -> Result:
    """Launches that were measured together, as a range, command list or CUDA graph: metrics and no shape."""
    result = Result(function_name=kind)
    for number, _, value in fields(data):
        try:
            if number == 4:
                result.metrics.append(_metric(message(value), names))
            elif number == 11 and kind == "range":
                result.context = integer(value)
            elif number == 18 and kind == "command list":
                result.demangled_name = text(value)
            elif number == 21 and kind == "command list":
                result.rules += _rule(message(value))
        except Damaged:
            result.damaged_parts += 1
    return result


def _dim3(data: memoryview) -> Dim3:
    sides = [0, 0, 0]
    for number, _, value in fields(data):
        if 1 <= number <= 3:
            sides[number - 1] = integer(value)
    return sides[0], sides[1], sides[2]


def _metric(data: memoryview, names: Sequence[str]) -> tuple[int, MetricValue | None, Instances]:
    name_id = 0
    value: MetricValue | None = None
    series: list[tuple[int | str, float]] = []
    for number, _, part in fields(data):
        if number == 1:
            name_id = integer(part)
        elif number == 2:
            value = _value(message(part))
            if name_id < len(names) and not keeps_instances(names[name_id]):
                break
        elif number == 3 and len(series) < MAX_INSTANCES:
            key: MetricValue | None = None
            element: MetricValue | None = None
            for at, _, inner in fields(message(part)):
                if at == 1:
                    key = _value(message(inner))
                elif at == 2:
                    element = _value(message(inner))
            if isinstance(element, (int, float)):
                position = len(series)
                series.append((position if key is None or isinstance(key, float) else key, float(element)))
    return name_id, value, tuple(series)


def _value(data: memoryview) -> MetricValue | None:
    found: MetricValue | None = None
    if len(data) == 9 and data[0] == _DOUBLE_KEY:
        found = float64(data[1:])
        return found if isfinite(found) else None
    for number, _, value in fields(data):
        if number == 1:
            found = text(value)
        elif number == 2:
            found = float32(value)
        elif number == 3:
            found = float64(value)
        elif number in (4, 5):
            found = integer(value)
    return None if isinstance(found, float) and not isfinite(found) else found


def _rule(data: memoryview) -> list[RuleResult]:
    """One entry for each message of a rule; the speed-up that follows a message belongs to it."""
    identifier = section = ""
    found: list[tuple[str, str, float | None, bool | None]] = []
    for number, _, value in fields(data):
        if number == 1:
            identifier = text(value)
        elif number == 4:
            section = text(value)
        elif number == 3:
            for at, _, item in fields(message(value)):
                if at == 1:
                    _take_body_item(message(item), found)
    return [
        RuleResult(identifier, section, kind, plain_text(words), percent, is_global)
        for kind, words, percent, is_global in found
    ]


def _take_body_item(data: memoryview, found: list[tuple[str, str, float | None, bool | None]]) -> None:
    for number, _, value in fields(data):
        if number == 1:
            words, kind = "", 0
            for at, _, part in fields(message(value)):
                if at == 1:
                    words = text(part)
                elif at == 2:
                    kind = integer(part)
            found.append((_MESSAGE_KINDS.get(kind, "info"), words, None, None))
        elif number == 10 and found:
            scope, percent = 0, None
            for at, _, part in fields(message(value)):
                if at == 1:
                    scope = integer(part)
                elif at == 2:
                    percent = float32(part) if not isinstance(part, int) and len(part) == 4 else float64(part)
            kind_name, words, _, _ = found[-1]
            found[-1] = (kind_name, words, percent, {_LOCAL: False, _GLOBAL: True}.get(scope))


def plain_text(words: str) -> str:
    """A stored message without its link markup: "@section:Id:Label@" becomes "Label"."""
    words = _URL_MARKUP.sub(lambda link: f"{link['label']} ({link['url']})", words)
    return _MARKUP.sub(lambda link: link["label"] or link["rest"] or "", words)
