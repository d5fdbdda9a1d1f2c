"""Turns the rows of one table into profiled launches, whichever page of the report it is."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from parsers.model import Effect, KernelProfile, QualityRecorder, RuleResult
from parsers.model.kernels import Dim3, MetricValue
from parsers.model.late import dataclass, regex
from parsers.model.units import base_unit
from parsers.ncu.labels import derived_metrics, identifier_of, metric_of_label
from parsers.ncu.numbers import Instances, NumberStyle, is_missing, metric_value, style_of, whole_number
from parsers.ncu.tables import IDENTITY_COLUMNS

ROWS_THAT_SHOW_THE_STYLE = 300
RULE_KINDS = {"OPT": "optimization", "WRN": "warning", "ERR": "error", "OK": "ok", "INF": "info"}
SUMMARY_COLUMNS = {
    "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Minimum", "Maximum", "Average",
}  # fmt: skip
NVTX_RANGE = "nvtx__range"  # no metric of the tool: the range by which a summary was made
_MAX_SIZE_LENGTH = 200  # characters of three numbers
_DIM = regex(r"\(?\s*(\d+)\s*[,;x]\s*(\d+)\s*[,;x]\s*(\d+)\s*\)?")
_NVTX_COLUMN = regex(r":(Push/Pop|Start/Stop)_Range", re.IGNORECASE)


@dataclass(slots=True)
class Launch:
    """One launch while its rows are collected; ``build`` makes the profile."""

    number: str
    name: str = ""
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    device: int | None = None
    compute_capability: tuple[int, int] | None = None
    context: int | None = None
    stream: int | None = None
    process: int | None = None
    process_name: str = ""
    invocations: int = 1
    metrics: dict[str, MetricValue] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    instances: dict[str, Instances] = field(default_factory=dict)
    rules: list[RuleResult] = field(default_factory=list)
    from_labels: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.number, self.process, self.name, self.context, self.stream)

    def take(self, metric: str, text: str, unit: str, style: NumberStyle) -> None:
        """Add one metric as printed, converted to its base unit."""
        factor, name = base_unit(unit)
        self.store(metric, text, factor, name, style)

    def store(self, metric: str, text: str, factor: float, name: str, style: NumberStyle) -> None:
        """Add one metric as printed, given the factor and the name of its base unit."""
        value, instances = metric_value(text, style)
        if value is None:
            return
        if factor != 1.0 and not isinstance(value, str):
            value = value * factor
            instances = tuple((key, each * factor) for key, each in instances)
        self.metrics[metric] = value
        if name:
            self.units[metric] = name
        if instances:
            self.instances[metric] = instances

    def build(self, ident: str) -> KernelProfile:
        if self.from_labels:
            self.metrics.update(derived_metrics(self.metrics))
        return KernelProfile(
            id=ident,
            name=self.name,
            grid=self.grid if any(self.grid) else self._dim("grid"),
            block=self.block if any(self.block) else self._dim("block"),
            device=self.device if self.device is not None else self._whole("launch__device_id"),
            compute_capability=self.compute_capability or self._capability(),
            context=self.context,
            stream=self.stream,
            process=self.process,
            process_name=self.process_name.strip(),
            metrics=self.metrics,
            units=self.units,
            instances=self.instances,
            rule_results=tuple(self.rules),
            device_name=self._text("device__attribute_display_name"),
            invocations=self.invocations,
        )

    def _whole(self, metric: str) -> int | None:
        return whole_number(self.metrics.get(metric))

    def _text(self, metric: str) -> str | None:
        value = self.metrics.get(metric)
        return value if isinstance(value, str) else None

    def _dim(self, what: str) -> Dim3:
        x, y, z = (self._whole(f"launch__{what}_dim_{axis}") for axis in "xyz")
        if x is not None:
            return x, y or 1, z or 1
        size = self._whole(f"launch__{what}_size")
        return (size, 1, 1) if size else (0, 0, 0)

    def _capability(self) -> tuple[int, int] | None:
        major = self._whole("device__attribute_compute_capability_major")
        return (
            None if major is None else (major, self._whole("device__attribute_compute_capability_minor") or 0)
        )


class Row:
    """One row by column name; cells beyond the row's end are empty."""

    __slots__ = ("_cells", "_index")

    def __init__(self, cells: Sequence[str], index: dict[str, int]) -> None:
        self._cells = cells
        self._index = index

    def __getitem__(self, column: str) -> str:
        at = self._index.get(column)
        return self._cells[at] if at is not None and at < len(self._cells) else ""

    @property
    def states_units(self) -> bool:
        """Whether this is the second row of a raw page, which states units instead of a launch."""
        return not (self["ID"].strip() or self["Kernel Name"].strip() or self["Process ID"].strip())

    def launch(self) -> Launch:
        return Launch(
            number=self["ID"].strip().replace(",", ""),
            name=self["Kernel Name"],
            grid=_dim3(self["Grid Size"]),
            block=_dim3(self["Block Size"]),
            device=_whole(self["Device"]),
            compute_capability=_capability(self["CC"]),
            context=_whole(self["Context"]),
            stream=_whole(self["Stream"]),
            process=_whole(self["Process ID"]),
            process_name=self["Process Name"],
            invocations=_whole(self["Invocations"]) or 1,
        )


class Page:
    """Reads one table row by row into launches; which page it is follows from its columns."""

    def __init__(self, header: list[str], quality: QualityRecorder) -> None:
        self._header = header
        self._quality = quality
        self._index = {name: at for at, name in reversed(list(enumerate(header)))}
        self._first_metric = sum(name in IDENTITY_COLUMNS for name in header)
        self._metrics = [
            (at, name)
            for at, name in enumerate(header)
            if name and name not in IDENTITY_COLUMNS and not _NVTX_COLUMN.search(name)
        ]
        self._columns = [(at, name, 1.0, "") for at, name in self._metrics]
        self._groups = [
            at for at, name in enumerate(header) if name and name not in IDENTITY_COLUMNS | SUMMARY_COLUMNS
        ]
        self._style = NumberStyle()
        self._waiting: list[list[str]] | None = []
        self._launches: dict[tuple[object, ...], Launch] = {}
        if "Metric Name" not in self._index:
            self._take = self._take_raw
        else:
            self._take = self._take_summary if "Average" in self._index else self._take_details

    def add(self, cells: list[str]) -> None:
        """Read a row; the first ones wait until they show how numbers are written."""
        if self._waiting is None:
            self._take(cells)
            return
        self._waiting.append(cells)
        if len(self._waiting) >= ROWS_THAT_SHOW_THE_STYLE:
            self._read_waiting()

    def launches(self) -> list[Launch]:
        self._read_waiting()
        return list(self._launches.values())

    def _read_waiting(self) -> None:
        if self._waiting is None:
            return
        rows, self._waiting = self._waiting, None
        self._style = style_of(cell for row in rows for cell in row[self._first_metric :])
        for cells in rows:
            self._take(cells)

    def _take_raw(self, cells: list[str]) -> None:
        row = Row(cells, self._index)
        if row.states_units:
            units = (base_unit(cells[at]) if at < len(cells) else (1.0, "") for at, _ in self._metrics)
            self._columns = [(at, name, *unit) for (at, name), unit in zip(self._metrics, units, strict=True)]
            return
        launch = row.launch()
        if len(cells) < len(self._header):
            self._quality.note(
                "short-row",
                Effect.NOTED,
                "A row of the CSV has fewer fields than the header; what is there was kept.",
                f"launch {launch.number}: {len(cells)} of {len(self._header)} fields",
            )
        for at, name, factor, unit in self._columns:
            if at < len(cells):
                launch.store(name, cells[at], factor, unit, self._style)
        self._launches[len(self._launches), *launch.identity] = launch

    def _take_details(self, cells: list[str]) -> None:
        row = Row(cells, self._index)
        found = row.launch()
        launch = self._launches.setdefault(found.identity, found)
        launch.from_labels = True
        section, label = row["Section Name"], row["Metric Name"]
        if label:
            metric = metric_of_label(section, label)
            if is_missing(row["Metric Value"]):
                self._quality.note(
                    "metric-not-available",
                    Effect.NOTED,
                    "The profiler has no value for a metric.",
                    f"launch {found.number}: {metric}",
                )
            else:
                launch.take(metric, row["Metric Value"], row["Metric Unit"], self._style)
        elif row["Rule Name"]:
            launch.rules.append(_rule_result(row, self._style))

    def _take_summary(self, cells: list[str]) -> None:
        row = Row(cells, self._index)
        found = row.launch()
        group = [cells[at].strip() for at in self._groups if at < len(cells)]
        key = (found.process, found.name, found.grid, found.block, found.device, *group)
        if (launch := self._launches.get(key)) is None:
            launch = self._launches[key] = found
            launch.number = launch.number or str(len(self._launches) - 1)
            launch.from_labels = True
            if any(group):
                launch.metrics[NVTX_RANGE] = ":".join(each for each in group if each)
        metric = metric_of_label(row["Section Name"], row["Metric Name"])
        launch.take(metric, row["Average"], row["Metric Unit"], self._style)


def _rule_result(row: Row, style: NumberStyle) -> RuleResult:
    section = row["Section Name"]
    speedup = style.number(row["Estimated Speedup"])
    kind = row["Estimated Speedup Type"].strip().lower()
    rule_type = row["Rule Type"].strip().upper()
    return RuleResult(
        rule=row["Rule Name"],
        section=identifier_of(section),
        kind=RULE_KINDS.get(rule_type, rule_type.lower() or "info"),
        text=row["Rule Description"],
        speedup_percent=None if speedup is None else float(speedup),
        speedup_is_global={"global": True, "local": False}.get(kind),
    )


def _whole(text: str) -> int | None:
    digits = text.strip().replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) < 20 else None


def _dim3(text: str) -> Dim3:
    found = _DIM.search(text[:_MAX_SIZE_LENGTH])
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _capability(text: str) -> tuple[int, int] | None:
    major, _, minor = text.strip().partition(".")
    return (int(major), int(minor or 0)) if major.isdecimal() and (minor or "0").isdecimal() else None


def profiles_of(launches: Iterable[Launch]) -> list[KernelProfile]:
    """Profiles in the order of the file.

    A raw and a details page of the same launch become one profile; the same number in a second recording
    that was appended to the file gets an id of its own ("0#2").
    """
    kept: list[Launch] = []
    by_identity: dict[tuple[object, ...], tuple[list[int], list[int]]] = {}  # places, of each sort of page
    for launch in launches:
        pages = by_identity.setdefault(launch.identity, ([], []))
        others = pages[not launch.from_labels]
        if others and _agree(kept[others[0]], launch):
            _join(kept[others[0]], launch)
            heapq.heappush(pages[False], heapq.heappop(others))
            continue
        heapq.heappush(pages[launch.from_labels], len(kept))
        kept.append(launch)
    used: dict[str, int] = {}
    profiles: list[KernelProfile] = []
    units: dict[str, str] = {}
    for position, launch in enumerate(kept):
        number = launch.number or str(position)
        used[number] = used.get(number, 0) + 1
        units = launch.units = units if launch.units == units else launch.units
        profiles.append(launch.build(number if used[number] == 1 else f"{number}#{used[number]}"))
    return profiles


def _agree(one: Launch, other: Launch) -> bool:
    """Two pages of one report state the same duration, up to rounding."""
    durations = [each.metrics.get("gpu__time_duration.sum") for each in (one, other)]
    if not all(isinstance(each, (int, float)) for each in durations):
        return True
    first, second = (float(each) for each in durations if each is not None)
    return abs(first - second) <= 0.01 * max(abs(first), abs(second))


def _join(into: Launch, more: Launch) -> None:
    """The page with the metrics' own names is the more exact one."""
    exact, labelled = (more, into) if into.from_labels else (into, more)
    into.metrics = {**labelled.metrics, **exact.metrics}
    into.units = {**labelled.units, **exact.units}
    into.instances = {**labelled.instances, **exact.instances}
    into.rules = into.rules or more.rules
    into.from_labels = False
