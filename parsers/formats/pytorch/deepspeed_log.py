"""What DeepSpeed prints of its time: the flops profiler's summary, and the phases of wall_clock_breakdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import TimeOf, Totals
from parsers.printed_profile import read_profile

_FLOPS = "DeepSpeed Flops Profiler"
_BREAKDOWN = regex(r"(?:^|[\] ])(?:rank=0 )?time \(ms\) \| (\w+: \d.*)")
_LATENCY = regex(r"(fwd|bwd|step) latency:\s{1,80}(\d{1,9}(?:\.\d{1,6})?) (us|ms|s)\b")
_SPEED = regex(r"FLOPS per GPU = 3\.0 \* .*?:\s{1,80}(\d{1,9}(?:\.\d{1,6})?) ([KMGTP]?FLOPS)")
_PHASE = regex(r"(\w{1,60}): (\d{1,12}(?:\.\d{1,12})?)")
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_PHASES = {  # without "_microstep", which stands behind the names of some versions and of parts of a step
    "fwd": "the forward pass",
    "forward": "the forward pass",
    "bwd_inner": "the backward pass",
    "backward_inner": "the backward pass",
    "bwd_allreduce": "the reduction of gradients",
    "backward_allreduce": "the reduction of gradients",
    "step": "the optimizer step",
}
_LATENCIES = {"fwd": "the forward pass", "bwd": "the backward pass", "step": "the optimizer step"}
_OF_MICROSTEPS = "_microstep"
_COLUMNS = (
    ResultColumn("Phase"),
    ResultColumn("Times"),
    ResultColumn("Time", "ms"),
    ResultColumn("Share", "%"),
)


@parser
class DeepSpeedLog(Parser):
    """Recognised by the title of the flops profiler, or by a line of times in a log."""

    format = "deepspeed-log"
    accompanies = True
    title = "DeepSpeed"
    files = "output of the flops profiler; logs with wall_clock_breakdown"
    suffixes = (".txt", ".log")
    priority = 66

    def recognises(self, source: Source) -> bool:
        text = utf8(source.head).decode("latin-1")
        return any(_FLOPS in line and "---" in line for line in text.splitlines()) or (
            "time (ms) |" in text and any(map(_is_breakdown, text.splitlines()))
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "DeepSpeed"), _tables)


def _is_breakdown(line: str) -> bool:
    found = _BREAKDOWN.search(line)
    return found is not None and any(
        name.removesuffix(_OF_MICROSTEPS) in _PHASES for name, _ in _PHASE.findall(found[1])
    )


def _tables(content: bytes) -> Iterator[ResultTable]:
    lines = utf8(content).decode("utf-8", "replace").splitlines()
    yield from _summaries(lines)
    yield _table("Phases of DeepSpeed", _added(lines))


def _summaries(lines: list[str]) -> Iterator[ResultTable]:
    """A table for each summary of the flops profiler: one iteration."""
    phases: dict[str, list[float]] = {}
    speed = ""
    for line in [*lines, _FLOPS]:
        if _FLOPS in line:
            yield _table(f"Iteration of DeepSpeed{speed}", phases)
            phases, speed = {}, ""
        elif found := _LATENCY.match(line.strip()):
            phases.setdefault(_LATENCIES[found[1]], [float(found[2]) * _MS[found[3]]])
        elif found := _SPEED.match(line.strip()):
            speed = f", {found[1]} {found[2]} a GPU"


def _added(lines: list[str]) -> dict[str, list[float]]:
    """The times of each phase, of the parts of steps where these are stated."""
    steps: defaultdict[str, list[float]] = defaultdict(list)
    parts: defaultdict[str, list[float]] = defaultdict(list)
    for line in lines:
        if (told := _BREAKDOWN.search(line)) is None:
            continue
        for name, ms in _PHASE.findall(told[1]):
            phase = _PHASES.get(name.removesuffix(_OF_MICROSTEPS))
            if phase is not None:
                (parts if name.endswith(_OF_MICROSTEPS) else steps)[phase].append(float(ms))
    return parts or steps


def _table(title: str, phases: dict[str, list[float]]) -> ResultTable:
    times = {phase: sum(told) for phase, told in phases.items()}
    whole = sum(times.values())
    rows = tuple(
        (phase, float(len(phases[phase])), ms, ms / whole * 100.0 if whole else None)
        for phase, ms in sorted(times.items(), key=lambda row: -row[1])
    )
    return ResultTable(title, _COLUMNS, rows, totals=(Totals(TimeOf.PROGRAM, 0, 2, 3, 1, whole=whole),))
