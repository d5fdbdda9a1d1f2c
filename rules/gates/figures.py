"""What one run costs, a step: the figures that gates, baselines and trends compare, small enough to be kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from parsers.model import F64, I64, EventKind
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass
from parsers.model.names.kernels import base_name, comparable_name, kernel_name
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import measure, union
from rules.analysis.names.software import software_of
from rules.analysis.steps.steps import Step
from rules.comparison.step_times import StepTimes, block_means
from rules.memory.summary import memory_of

MAX_NAMES = 40  # kernels, and regions, that are kept step by step; the longest
MAX_STEPS = 500  # kept; of more, means of consecutive ones


@dataclass(frozen=True, slots=True)
class Named:
    """Kernels or regions of one name: ``launches`` a step, and the ns of each steady step, shape (steps,)."""

    shown: str
    launches: float
    ns: F64


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Series have one value for each steady step, of several ranks their mean; empty without steps.

    ``kernels`` is by names that all tools would give. ``memory_peak`` is in bytes, that of the GPU that held most;
    ``recorded_ns`` is the wall clock of the recording's start, UTC.
    """

    files: tuple[str, ...]
    gpus: tuple[str, ...]  # model of each that ran kernels
    found_by: str  # how the steps were found
    step_ns: F64
    kernel_ns: F64
    collective_ns: F64
    launches: F64
    memory_peak: int | None = None
    kernels: Mapping[str, Named] = field(default_factory=dict)
    regions: Mapping[str, Named] = field(default_factory=dict)
    software: tuple[str, ...] = ()
    recorded_ns: int | None = None

    @property
    def steps(self) -> StepTimes:
        """The steady steps."""
        return StepTimes(self.step_ns)

    def kernels_called(self, name: str) -> list[Named]:
        """Kernels of this full name, short name, or function's own name."""
        wanted = comparable_name(name)
        return [
            each
            for key, each in self.kernels.items()
            if wanted == key or name in (each.shown, kernel_name(each.shown), base_name(each.shown))
        ]

    def shortened(self) -> RunFigures:
        """At most MAX_STEPS values a series, to be kept."""
        return replace(
            self,
            step_ns=block_means(self.step_ns, MAX_STEPS),
            kernel_ns=block_means(self.kernel_ns, MAX_STEPS),
            collective_ns=block_means(self.collective_ns, MAX_STEPS),
            launches=block_means(self.launches, MAX_STEPS),
            kernels=_each_shortened(self.kernels),
            regions=_each_shortened(self.regions),
        )

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "files": list(self.files),
            "gpus": list(self.gpus),
            "found_by": self.found_by,
            "memory_peak": self.memory_peak,
            "software": list(self.software),
            "recorded_ns": self.recorded_ns,
        }
        data |= {part: np.round(getattr(self, part), 3).tolist() for part in _SERIES}
        for part in ("kernels", "regions"):
            data[part] = {
                key: {"shown": each.shown, "launches": each.launches, "ns": np.round(each.ns).tolist()}
                for key, each in getattr(self, part).items()
            }
        return data

    @classmethod
    def from_data(cls, data: Any) -> RunFigures:
        """What ``to_data`` gave; raises ValueError where it is something else."""
        try:
            peak, recorded = data["memory_peak"], data["recorded_ns"]
            return cls(
                files=tuple(map(str, data["files"])),
                gpus=tuple(map(str, data["gpus"])),
                found_by=str(data["found_by"]),
                step_ns=_series(data["step_ns"]),
                kernel_ns=_series(data["kernel_ns"]),
                collective_ns=_series(data["collective_ns"]),
                launches=_series(data["launches"]),
                memory_peak=None if peak is None else int(peak),
                kernels=_named(data["kernels"]),
                regions=_named(data["regions"]),
                software=tuple(map(str, data["software"])),
                recorded_ns=None if recorded is None else int(recorded),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"these are not figures of a run ({error})") from error


_SERIES = ("step_ns", "kernel_ns", "collective_ns", "launches")


def _named(data: Any) -> dict[str, Named]:
    return {
        str(key): Named(str(each["shown"]), float(each["launches"]), _series(each["ns"]))
        for key, each in data.items()
    }


def _each_shortened(named: Mapping[str, Named]) -> dict[str, Named]:
    return {key: replace(each, ns=block_means(each.ns, MAX_STEPS)) for key, each in named.items()}


def _series(values: Any) -> F64:
    series = np.asarray(values, np.float64)
    if series.ndim != 1 or not np.isfinite(series).all() or (series < 0).any():
        raise ValueError("a series of times contains something else")
    return series


def figures_of(analysis: Analysis, kernels: Iterable[str] = (), regions: Iterable[str] = ()) -> RunFigures:
    """The figures of a run; those kernels and regions are among them however short they are."""
    trace, events = analysis.trace, analysis.trace.events
    steps = _Steps.of(
        [step for step in analysis.steps if step.steady and step.found_by != "window"], analysis
    )
    all_kernels = events.of_kind(EventKind.KERNEL)
    length = (events.end - events.start)[all_kernels]
    collective = trace.communicates[all_kernels]
    at = steps.position(all_kernels)
    memory = [each.peak_allocated for each in memory_of(analysis)]
    ran = distinct_values(trace.lane_device[events.lane[all_kernels]])
    return RunFigures(
        files=tuple(each.path for each in trace.inputs),
        gpus=tuple(sorted(trace.devices[device].name for device in ran.tolist() if device >= 0)),
        found_by=steps.found_by,
        step_ns=StepTimes.of(analysis.steps).ns if steps.found_by else np.zeros(0),
        kernel_ns=steps.mean(steps.total(at, length)),
        collective_ns=steps.mean(steps.total(at[collective], length[collective])),
        launches=steps.mean(steps.total(at, np.ones(len(at), np.int64))),
        memory_peak=max(memory, default=None),
        kernels=_kernels(analysis, steps, all_kernels, at, tuple(kernels)),
        regions=_regions(analysis, steps, tuple(regions)),
        software=tuple(software_of(trace)),
        recorded_ns=trace.epoch_ns,
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steady steps as columns, by rank and time; ``number`` counts them within their rank."""

    analysis: Analysis
    start: I64
    end: I64
    number: I64
    ranks: Mapping[int | None, slice]
    found_by: str

    @classmethod
    def of(cls, steps: Sequence[Step], analysis: Analysis) -> _Steps:
        ranks: dict[int | None, list[Step]] = {}
        for step in steps:
            ranks.setdefault(step.rank, []).append(step)
        ordered = [step for rank in ranks.values() for step in sorted(rank, key=lambda each: each.start)]
        edges = np.cumsum([0, *(len(rank) for rank in ranks.values())]).tolist()
        return cls(
            analysis,
            np.array([step.start for step in ordered], np.int64),
            np.array([step.end for step in ordered], np.int64),
            np.concatenate([np.arange(len(rank)) for rank in ranks.values()] or [np.zeros(0, np.int64)]),
            {rank: slice(edges[at], edges[at + 1]) for at, rank in enumerate(ranks)},
            steps[0].found_by if steps else "",
        )

    def position(self, events: I64) -> I64:
        """The step of its rank in which each event starts; -1 for none."""
        trace = self.analysis.trace
        found = np.full(len(events), -1, np.int64)
        start, rank_of = trace.events.start[events], trace.lane_rank[trace.events.lane[events]]
        for rank, part in self.ranks.items():
            mine = np.ones(len(events), bool) if rank is None else rank_of == rank
            at = np.searchsorted(self.start[part], start, "right") - 1
            inside = mine & (at >= 0) & (start < self.end[part][np.maximum(at, 0)])
            found[inside] = at[inside] + part.start
        return found

    def total(self, at: I64, weight: I64) -> F64:
        """The sum of ``weight`` in each step, shape (all steps,)."""
        inside = at >= 0
        return np.asarray(np.bincount(at[inside], weight[inside], minlength=len(self.start)), np.float64)

    def mean(self, of_steps: F64) -> F64:
        """The mean over the ranks of each step, shape (steps of one rank,)."""
        count = np.bincount(self.number)
        return np.asarray(np.bincount(self.number, of_steps) / np.maximum(count, 1), np.float64)


def _kernels(
    analysis: Analysis, steps: _Steps, kernels: I64, at: I64, wanted: Sequence[str]
) -> dict[str, Named]:
    trace = analysis.trace
    if not len(steps.start) or not len(kernels):
        return {}
    inside = at >= 0
    chosen, step = kernels[inside], at[inside]
    length = (trace.events.end - trace.events.start)[chosen]
    names = trace.events.name[chosen]
    keys = {name: comparable_name(trace.strings[name]) for name in distinct_values(names).tolist()}
    shown = {key: trace.strings[name] for name, key in reversed(keys.items())}
    number = {key: index for index, key in enumerate(shown)}
    table = np.zeros(len(trace.strings), np.int64)
    table[list(keys)] = [number[key] for key in keys.values()]
    group = table[names]
    order = np.argsort(-np.bincount(group, length, minlength=len(number)), kind="stable")
    ordered = [list(number)[index] for index in order.tolist()]
    asked = {
        key
        for key in ordered
        for name in wanted
        if comparable_name(name) == key
        or name in (shown[key], kernel_name(shown[key]), base_name(shown[key]))
    }
    found = {}
    for key in dict.fromkeys([*ordered[:MAX_NAMES], *sorted(asked)]):
        mine = group == number[key]
        launches = np.count_nonzero(mine) / len(steps.start)
        found[key] = Named(shown[key], launches, steps.mean(steps.total(step[mine], length[mine])))
    return found


def _regions(analysis: Analysis, steps: _Steps, wanted: Sequence[str]) -> dict[str, Named]:
    """Regions by name: how much of each step they cover on the threads, in whatever number they are nested."""
    trace, events = analysis.trace, analysis.trace.events
    regions = events.of_kind(EventKind.REGION)
    at = steps.position(regions)
    regions, at = regions[at >= 0], at[at >= 0]
    if not len(regions):
        return {}
    names = events.name[regions]
    time = np.bincount(names, (events.end - events.start)[regions])
    longest = np.argsort(-time, kind="stable")[:MAX_NAMES]
    asked = [name for name in distinct_values(names).tolist() if trace.strings[name] in wanted]
    found = {}
    for name in dict.fromkeys([*longest[time[longest] > 0].tolist(), *asked]):
        mine = names == name
        covered = np.zeros(len(steps.start))
        for part in steps.ranks.values():
            of_rank = regions[mine & (at >= part.start) & (at < part.stop)]
            spans = union(*events.spans(of_rank))
            covered[part] = measure(spans, steps.start[part], steps.end[part])
        found[trace.strings[name]] = Named(
            trace.strings[name], np.count_nonzero(mine) / len(steps.start), steps.mean(covered)
        )
    return found
