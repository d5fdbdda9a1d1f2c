"""What DeepSpeed prints of its time: the flops profiler's summary, and the phases of wall_clock_breakdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from parsers.files.base import Source, parser
from parsers.files.texts import utf8
from parsers.model import ResultTable
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.results import TimeOf, Totals, titled
from parsers.model.units import NS_PER_MS, duration
from parsers.printed_profile import PrintedProfile

MIN_STEPS = 5  # tell what is usual
MIN_SLOW = 2.0  # times that: steps at the beginning that take as long start everything

_FLOPS = "DeepSpeed Flops Profiler"
_BREAKDOWN = regex(r"(?:^|[\] ])(?:rank=0 )?time \(ms\) \| (\w+: \d.*)")
_LATENCY = regex(r"(fwd|bwd|step) latency:\s{1,80}(\d{1,9}(?:\.\d{1,6})?) (us|ms|s)\b")
_SPEED = regex(r"FLOPS per GPU = 3\.0 \* .*?:\s{1,80}(\d{1,9}(?:\.\d{1,6})?) ([KMGTP]?FLOPS)")
_FORWARD_SPEED = regex(r"fwd FLOPS per GPU = .*?:\s{1,80}(\d{1,9}(?:\.\d{1,6})?) ([KMGTP]?FLOPS)")
_MODULES = "Detailed Profile"
_MODULE = regex(r"( {0,400})(?:\([^()]{1,200}\): )?(?:(\d{1,6}) x )?([A-Za-z_]\w{0,200})\(")
_TOOK = regex(r", (\d{1,9}(?:\.\d{1,6})?) (us|ms|s) = \d{1,3}(?:\.\d{1,6})?% latency")
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
_COLUMNS = titled("Phase", "Times", "Time (ms)", "Share (%)")
_MODULE_COLUMNS = titled("Module", "Modules", "Own time (ms)", "Own share (%)", "With its parts (ms)")


@dataclass(slots=True)
class _Module:
    """A module of the printed tree, or several that print the same; ms, of one of them."""

    indent: int
    name: str
    times: int
    whole: int  # as many as there are of it with those around it
    took: float | None = None
    inside: float = 0.0  # what its parts take


@parser
class DeepSpeedLog(PrintedProfile):
    """Recognised by the title of the flops profiler, or by a line of times in a log."""

    format = "deepspeed-log"
    title = "DeepSpeed"
    files = "output of the flops profiler; logs with wall_clock_breakdown"
    suffixes = (".txt", ".log")
    priority = 66
    version = 2
    producer = "DeepSpeed"

    def recognises(self, source: Source) -> bool:
        text = utf8(source.head).decode("latin-1")
        return any(_FLOPS in line and "---" in line for line in text.splitlines()) or (
            "time (ms) |" in text and any(map(_is_breakdown, text.splitlines()))
        )

    def tables(self, text: str) -> Iterator[ResultTable]:
        lines = text.splitlines()
        modules = _modules(lines)
        for summary in _summaries(lines):
            only_forward = len(summary.rows) == 1 and modules.rows
            yield replace(summary, totals=()) if only_forward else summary
            if only_forward:
                yield modules
                modules = replace(modules, rows=())
        yield _breakdown(lines)


def _is_breakdown(line: str) -> bool:
    found = _BREAKDOWN.search(line)
    return found is not None and any(
        name.removesuffix(_OF_MICROSTEPS) in _PHASES for name, _ in _PHASE.findall(found[1])
    )


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
        elif found := _SPEED.match(line.strip()) or _FORWARD_SPEED.match(line.strip()):
            speed = f", {found[1]} {found[2]} a GPU"


def _modules(lines: list[str]) -> ResultTable:
    """The modules of the first tree by what they take themselves, in the forward pass, without their parts."""
    own: defaultdict[str, float] = defaultdict(float)
    took: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    stack: list[_Module] = []

    def close(indent: int) -> None:
        while stack and stack[-1].indent >= indent:
            module = stack.pop()
            ms = module.inside if module.took is None else module.took
            if stack:
                stack[-1].inside += module.times * ms
            if module.took:
                own[module.name] += module.whole * max(module.took - module.inside, 0.0)
                took[module.name] += module.whole * module.took
                counts[module.name] += module.whole

    begin = next((at for at, line in enumerate(lines) if _MODULES in line), len(lines))
    for line in lines[begin + 1 :]:
        if line.startswith("---"):
            break
        if found := _MODULE.match(line):
            close(len(found[1]))
            times = int(found[2] or 1)
            whole = times * (stack[-1].whole if stack else 1)
            stack.append(_Module(len(found[1]), found[3], times, whole))
        if stack and stack[-1].took is None and (told := _TOOK.search(line)):
            stack[-1].took = float(told[1]) * _MS[told[2]]
    close(0)
    spent = sum(own.values())
    rows = tuple(
        (name, float(counts[name]), ms, ms / spent * 100.0 if spent else None, took[name])
        for name, ms in sorted(own.items(), key=lambda row: -row[1])
    )
    totals = Totals(TimeOf.PROGRAM, 0, 2, 3, whole=spent)
    return ResultTable("Modules of DeepSpeed, in the forward pass", _MODULE_COLUMNS, rows, totals=(totals,))


def _breakdown(lines: list[str]) -> ResultTable:
    """The times of each phase, of the parts of steps where these are stated, without slow ones at the beginning."""
    steps: list[dict[str, float]] = []
    parts: list[dict[str, float]] = []
    for line in lines:
        if (told := _BREAKDOWN.search(line)) is None:
            continue
        whole: dict[str, float] = {}
        part: dict[str, float] = {}
        for name, ms in _PHASE.findall(told[1]):
            phase = _PHASES.get(name.removesuffix(_OF_MICROSTEPS))
            if phase is not None:
                (part if name.endswith(_OF_MICROSTEPS) else whole)[phase] = float(ms)
        steps += [whole] if whole else []
        parts += [part] if part else []
    told_of = parts or steps
    took = [sum(each.values()) for each in told_of]
    usual = float(median_of(took)) if took else 0.0
    first = 0
    while len(took) >= MIN_STEPS and first < len(took) / 2 and took[first] >= MIN_SLOW * usual > 0:
        first += 1
    phases: defaultdict[str, list[float]] = defaultdict(list)
    for each in told_of[first:]:
        for phase, ms in each.items():
            phases[phase].append(ms)
    title = "Phases of DeepSpeed"
    if usual:
        title += (
            f": {duration(usual * NS_PER_MS)} a {'microstep' if parts else 'step'} (median of {len(took):,})"
        )
    if first == 1:
        title += f", without the first one, which takes {duration(took[0] * NS_PER_MS)}"
    elif first:
        title += f", without the first {first}, which take up to {duration(max(took[:first]) * NS_PER_MS)}"
    return replace(_table(title, phases), totals=(Totals(TimeOf.PROGRAM, 0, -1, 3),))


def _table(title: str, phases: dict[str, list[float]]) -> ResultTable:
    times = {phase: sum(told) for phase, told in phases.items()}
    whole = sum(times.values())
    rows = tuple(
        (phase, float(len(phases[phase])), ms, ms / whole * 100.0 if whole else None)
        for phase, ms in sorted(times.items(), key=lambda row: -row[1])
    )
    return ResultTable(title, _COLUMNS, rows, totals=(Totals(TimeOf.PROGRAM, 0, 2, 3, 1, whole=whole),))
