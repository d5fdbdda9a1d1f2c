"""Makes findings of what is wrong inside a kernel: one for each group of equal launches, weighed by its time."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from parsers.model import I64, KernelProfile, Trace
from parsers.model.arrays import distinct_values
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs, union
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.names.families import Family, classify
from rules.findings.base import Category, Finding, Need, NeedsMore, Rule, Severity, rules, severity_of
from rules.kernels.checks.every import evaluate
from rules.kernels.checks.speed_of_light import HIGH_PERCENT, LOW_PERCENT, KernelRuleResult, speed_of_light
from rules.kernels.checks.stalls import compiled_for_debugging
from rules.kernels.join import kernel_join
from rules.kernels.launch_groups import (
    MUCH_FASTER,
    KernelGroup,
    block_sizes,
    groups_of_all_grids,
    groups_worth_reading,
    kernel_groups,
    profiled_ns,
    together,
)
from rules.losses.lost_time import event_evidence
from rules.remedies.remedy import Remedy
from rules.terms import NEARLY_ALL, Culprit, CulpritKind
from rules.wording.words import Headline

_VERSION = regex(
    r"(?<![a-z])(naive|baseline|base|simple|slow|fast|faster|opt|optimi[sz]ed|improved|better|new|old|ref|reference|"
    r"shared|smem|tiled|coalesced|vectori[sz]ed|unrolled|v|ver|version|kernel|gpu|cuda|final)(?![a-z])"
)
_WORDS = regex(r"[a-z]+")
# of the source, as compilers of loops append it
_LINE = regex(r"(?<![a-z])l\d{2,}(?![a-z\d])|(?<= )\d+(?= gpu\b)")


def work_of(name: str) -> tuple[str, ...]:
    """The words of a kernel's name without those that tell versions apart; empty where nothing else is left.

    Kernels that compilers make of loops bear the line of their loop: another line is other work.
    """
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", kernel_name(name)).lower().replace("_", " ")
    found = _WORDS.findall(_VERSION.sub(" ", words))
    return (*found, *_LINE.findall(words)) if found else ()


def faster_version(trace: Trace, kernel: KernelProfile) -> tuple[KernelGroup, float] | None:
    """The fastest launches that do the same by their name, and how many times faster one is; None without any.

    Only of kernels with other names: the same kernel with another grid may have had less to do. A library's matrix
    product stands for the same work as one that somebody wrote.
    """
    mine, took = work_of(kernel.name), kernel.duration_ns or 0.0
    is_own_product = classify(kernel.name).family is Family.GEMM and not is_of_library(kernel.name)
    if not mine or not took:
        return None
    found = [
        (group, took / other)
        for group in kernel_groups(trace.kernels)
        if group.name != kernel.name
        and (
            work_of(group.name) == mine
            or (is_own_product and is_of_library(group.name) and classify(group.name).family is Family.GEMM)
        )
        and (other := group.representative.duration_ns or 0.0) > 0
    ]
    fastest = max(found, key=lambda each: each[1], default=None)
    return fastest if fastest is not None and fastest[1] >= MUCH_FASTER else None


_OF_LIBRARIES = regex(
    r"cublas|cudnn|cusparse|cusolver|cufft|nvjet_|\bat::native::|\bcub::|\bthrust::|xmma_|cutlass_\d\d_|\bcutlass3x_sm\d+_|"
    r"^(void )?(ampere|turing|volta|maxwell)_|\bgemv(2[NT]|NSP|x::)\w*kernel|^Cijk_|miopen|rocblas|^__myl_"
)


def is_of_library(kernel: str) -> bool:
    """Whether a kernel comes with a library, by its name."""
    return _OF_LIBRARIES.search(kernel) is not None


_OF_RANDOM_NUMBERS = regex(
    r"\bdistribution_(elementwise|nullary)|\b(cu|hip|roc)rand_(init|gen)\w*|generate_seed_pseudo"
)
_INPUT = (
    "It fills a tensor with random numbers, most likely to make input: profile the kernel that matters (-k "
    "regex:NAME, or --launch-skip).",
)
_INSIDE_A_KERNEL = frozenset(
    {
        Category.LATENCY_BOUND,
        Category.UNCOALESCED_ACCESS,
        Category.BANK_CONFLICTS,
        Category.DIVERGENCE,
        Category.LOW_OCCUPANCY,
        Category.SMALL_GRID,
        Category.TAIL_EFFECT,
        Category.REGISTER_SPILL,
        Category.LOCAL_MEMORY,
        Category.ATOMICS,
        Category.BARRIER_STALL,
        Category.CACHE_MISSES,
        Category.IMBALANCE,
    }
)
_OF_THE_BUILD = frozenset({Category.LOW_OCCUPANCY, Category.REGISTER_SPILL, Category.LOCAL_MEMORY})
_ADVICE = (
    "It is a library kernel, so what can change is its input: more rows or problems in one call, sizes that are "
    "multiples of 8, 16-bit numbers.",
    "Let the library choose another kernel: use its heuristics or autotuning (cublasLt, cudnn.benchmark), or a "
    "newer version.",
)


def advice_for_libraries(name: str, category: Category) -> tuple[str, ...]:
    """What helps against a fault inside a library's kernel; empty for other kernels, and for other faults."""
    if _OF_RANDOM_NUMBERS.search(name):
        return _INPUT
    if category not in _INSIDE_A_KERNEL or not is_of_library(name):
        return ()
    return _ADVICE


MAX_NAME_LENGTH = 70
NOT_WALL_TIME = (
    "The times are from Nsight Compute, which serialises kernels and by default flushes caches and fixes clocks: "
    "compare them with each other, not with wall time."
)
FROM_THE_REPORT = "The counters are from Nsight Compute, which by default flushes caches and fixes clocks."
MAX_EVIDENCE = 5
SHORT_NS = 5_000
MIN_LAUNCH_NS = 2_000  # Nsight Compute's time of a launch whose kernel does next to nothing: 1 to 2 us
MIN_TOLD = 0.01  # of the profiled time, where one kernel takes nearly all of it: of a kernel whose limit is told, too
_OF_LARGE_SETS = frozenset(
    {
        "WarpStateStats",
        "SourceCounters",
        "MemoryWorkloadAnalysis_Tables",
        "MemoryWorkloadAnalysis_Chart",
        "ComputeWorkloadAnalysis",
    }
)
_NO_EVENTS = np.empty(0, np.int64)
ONE_LAUNCH = "Only one launch of it was profiled, maybe the warm-up: profile a later one too (--launch-skip)."


@dataclass(frozen=True, slots=True)
class Fault:
    """What a rule says about one kernel. ``saving`` is the share (0 to 1) of its time that could go at most.

    ``category`` is the rule's own unless it says another.
    """

    title: str
    explanation: str
    remedy: Remedy
    saving: float
    category: Category | None = None
    cannot_tell: str = ""
    confidence: str = "medium"
    severity: Severity | None = None
    is_verdict: bool = False


def short_name(name: str) -> str:
    """A kernel's name, short enough for a title."""
    text = kernel_name(name)
    return text if len(text) <= MAX_NAME_LENGTH else text[: MAX_NAME_LENGTH - 1] + "…"


def results_of(kernel: KernelProfile, rule: str, category: Category | None = None) -> list[KernelRuleResult]:
    """What one check says about a kernel, fired only, strongest first; of one category, where that is given."""
    fired = [each for each in evaluate(kernel) if each.rule == rule and each.fired]
    return sorted(
        (each for each in fired if category in (None, each.category)), key=lambda each: -each.saving
    )


@dataclass(frozen=True, slots=True)
class Weight:
    """How much time a group of launches stands for, out of which window, and where that is on the timeline."""

    total_ns: float
    window_ns: int
    text: str
    events: I64
    note: str = ""


def findings(
    rule: KernelRule, analysis: Analysis, groups: Iterable[tuple[KernelGroup, Fault]]
) -> Iterator[Finding]:
    """One finding for each group that has the fault.

    Beside a timeline the time is the timeline's, and kernels that do not occur there are left to the kernel table;
    without one it is the profiler's.
    """
    trace = analysis.trace
    joined = len(trace.gpu_operations) > 0 and kernel_join(trace).matched > 0
    one_is_all = _takes_nearly_all(trace)
    for group, fault in groups:
        weight = _on_the_timeline(analysis, group) if joined else _in_the_report(trace, group)
        if weight is None:
            continue
        saving = 0.0 if math.isnan(fault.saving) else min(max(fault.saving, 0.0), _above_the_floor(group))
        ceiling = round(saving * weight.total_ns)
        if fault.is_verdict and one_is_all and weight.total_ns < MIN_TOLD * weight.window_ns:
            continue
        once = ONE_LAUNCH if group.only_first_launch else ""
        of_library = advice_for_libraries(group.name, fault.category or rule.category)
        short = _caution(group.representative)
        notes = [weight.note, once, short, fault.cannot_tell]
        yield Finding(
            rule=rule.id,
            category=fault.category or rule.category,
            severity=fault.severity
            or (Severity.INFO if of_library and _works_well(group.representative) else None)
            or _at_most_low(severity_of(ceiling, weight.window_ns), bool(short)),
            headline=Headline(
                fault.title, subject=f"{short_name(group.name)}{_block(trace, group)}", names_culprit=True
            ),
            account=f"{_verdict_first(group.representative, fault)}{fault.explanation}{weight.text}"
            + _faster_version(trace, group.representative, fault),
            remedy=Remedy(of_library) if of_library else fault.remedy,
            ceiling_ns=ceiling,
            window_ns=weight.window_ns,
            culprit=Culprit(CulpritKind.KERNEL, group.name),
            rank=_rank(trace, weight.events),
            device=_device(trace, weight.events),
            kernel=group.representative.id,
            evidence=event_evidence(trace, weight.events, MAX_EVIDENCE),
            intervals=pairs(union(*trace.events.spans(weight.events))),
            unknown=(" ".join(note for note in notes if note),),
            confidence=fault.confidence,
        )


def _at_most_low(severity: Severity, means_little: bool) -> Severity:
    return Severity.LOW if means_little and severity in (Severity.HIGH, Severity.MEDIUM) else severity


def _above_the_floor(group: KernelGroup) -> float:
    """The share of its time that a launch does not take by being one; all of it where its time is not known."""
    mean = group.total_ns / group.count if group.count else 0.0
    return max(1.0 - MIN_LAUNCH_NS / mean, 0.0) if mean > 0 else 1.0


def _faster_version(trace: Trace, kernel: KernelProfile, fault: Fault) -> str:
    """What another kernel of the report that does the same needs, beside what costs this one most; else empty."""
    found = faster_version(trace, kernel)
    if found is None or fault.saving <= 0 or any(each.saving > fault.saving for each in other_faults(kernel)):
        return ""
    group, factor = found
    which = "a library's matrix product" if is_of_library(group.name) else "another version of it"
    return (
        f" {short_name(group.name)}, going by its name {which} in this report, takes "
        f"{duration(group.representative.duration_ns or 0.0)}: {three_digits(factor)} times faster, if both did the "
        "same work."
    )


def _works_well(kernel: KernelProfile) -> bool:
    """Whether it keeps arithmetic or memory busy: of a library's kernel, nobody outside can make more."""
    sol = speed_of_light(kernel)
    return sol is not None and sol.best >= LOW_PERCENT


def _takes_nearly_all(trace: Trace) -> bool:
    """Whether one kernel takes nearly all of the profiled time."""
    longest = max((each.total_ns for each in groups_of_all_grids(trace.kernels)), default=0.0)
    return longest >= NEARLY_ALL * max(profiled_ns(trace), 1)


def _verdict_first(kernel: KernelProfile, fault: Fault) -> str:
    sol = None if fault.is_verdict else speed_of_light(kernel)
    return "" if sol is None else f"{sol.verdict[0].upper()}{sol.verdict[1:]}. "


def _in_the_report(trace: Trace, group: KernelGroup) -> Weight:
    window = profiled_ns(trace)
    times = f"{group.count} launches{_grids(group)}, " if group.count > 1 else ""
    share = f", {100 * group.total_ns / window:.0f} % of the profiled time" if window else ""
    text = f" ({times}{duration(group.total_ns)}{share}.)" if group.total_ns else ""
    return Weight(group.total_ns, window, text, _NO_EVENTS, NOT_WALL_TIME)


def _grids(group: KernelGroup) -> str:
    return f" in grids of {group.grids} sizes, of which the costliest is described" if group.grids > 1 else ""


def _block(trace: Trace, group: KernelGroup) -> str:
    """What tells it from other groups of the same kernel in the report: its block, where their sizes differ."""
    if len(block_sizes(trace)[group.name]) < 2:
        return ""
    return f", block {math.prod(group.representative.block)}"


def _on_the_timeline(analysis: Analysis, group: KernelGroup) -> Weight | None:
    trace = analysis.trace
    start, end = analysis.window
    events = kernel_join(trace).events_of(group.launches)
    inside = (trace.events.start[events] < end) & (trace.events.end[events] > start)
    events = events[inside]
    window = analysis.window_ns * max(len(analysis.active_devices), 1)
    if not len(events):
        return None
    total = int(trace.events.duration[events].sum())
    text = (
        f" (On the timeline: {len(events)} launch{'es' if len(events) > 1 else ''}, {duration(total)},"
        f" {100 * total / max(window, 1):.0f} % of the window.)"
    )
    share = total / max(len(analysis.active_devices), 1)
    return Weight(share, analysis.window_ns, text, events, FROM_THE_REPORT)


def _caution(kernel: KernelProfile) -> str:
    """The note that can change a verdict: the launch is too short. Empty when it is not."""
    time = kernel.duration_ns
    if time is None or not 0 < time < SHORT_NS:
        return ""
    return f"The launch took {duration(time)}: start-up dominates, so percentages mean little."


def _device(trace: Trace, events: I64) -> int | None:
    devices = distinct_values(trace.lane_device[trace.events.lane[events]])
    return int(devices[0]) if len(devices) == 1 and devices[0] >= 0 else None


def _rank(trace: Trace, events: I64) -> int | None:
    ranks = {trace.lanes[lane].rank for lane in distinct_values(trace.events.lane[events]).tolist()}
    return ranks.pop() if len(ranks) == 1 else None


_OF_AMD = "its counters are from an AMD GPU, and this check reads Nsight Compute's"


@dataclass(frozen=True, slots=True)
class Reads:
    """Which counters a rule cannot do without: a pattern of names, the section that records them, what they count."""

    pattern: str
    section: str
    what: str

    def are_in(self, kernel: KernelProfile) -> bool:
        """Whether a launch has any of them, or what the report concluded from them.

        Pages of details leave most counters out, and say nothing of a section in which nothing stands out.
        """
        concluded = {each.section for each in kernel.rule_results if each.kind != "error"}
        return (
            self.section in concluded
            or len(concluded & _OF_LARGE_SETS) >= 2
            or any(map(re.compile(self.pattern).search, kernel.metrics))
        )

    @property
    def lacking(self) -> str:
        """What to say where no launch has them."""
        return f"the report lacks counters of {self.what} (record --section {self.section}, or --set full)"


class KernelRule(NeedsMore, Rule):
    """A rule that looks at one profiled kernel at a time: subclasses say what is wrong with it, if anything."""

    id: ClassVar[str]
    category: ClassVar[Category]
    reads: ClassVar[Reads]
    needs = frozenset({Need.KERNEL_COUNTERS})
    is_verdict = False

    @abstractmethod
    def fault(self, kernel: KernelProfile) -> Fault | None:
        """What is wrong with the launch that speaks for its group; None when nothing is."""

    def of_code(self, kernel: KernelProfile) -> Fault | None:
        """The same; None where it is only that the kernel was compiled without optimisation."""
        if self.category in _OF_THE_BUILD and compiled_for_debugging(kernel):
            return None
        return self.fault(kernel)

    def lacking(self, trace: Trace) -> str:
        """Why it cannot judge any launch of this report; empty where it can."""
        if any(map(self.reads.are_in, trace.kernels)):
            return ""
        if not is_amd(trace):
            return self.reads.lacking
        return _OF_AMD if any(each.metrics for each in trace.kernels) else "no counters were recorded"

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        """One finding for each group of equal launches that has the fault."""
        found = (
            (group, self.of_code(group.representative)) for group in groups_worth_reading(analysis.trace)
        )
        yield from findings(
            self, analysis, _alike([(group, fault) for group, fault in found if fault is not None])
        )


def _alike(found: list[tuple[KernelGroup, Fault]]) -> Iterator[tuple[KernelGroup, Fault]]:
    """The same, where one kernel has the same fault in grids of several sizes as one: they are the same code.

    The costliest grid speaks for all; the saving is what each grid could save, weighed by its time.
    """
    kinds: dict[tuple[object, ...], list[tuple[KernelGroup, Fault]]] = {}
    for group, fault in found:
        launch = group.representative
        kinds.setdefault((launch.name, launch.block, launch.device, fault.category), []).append(
            (group, fault)
        )
    for same in kinds.values():
        if len(same) == 1:
            yield same[0]
            continue
        whole = together([group for group, _ in same])
        _, fault = max(same, key=lambda each: each[0].total_ns)
        saved = sum(each.saving * group.total_ns for group, each in same)
        yield whole, replace(fault, saving=saved / whole.total_ns if whole.total_ns else fault.saving)


def other_faults(kernel: KernelProfile) -> list[Fault]:
    """What every rule but the main verdict finds wrong with a kernel, costliest first."""
    found = [each.of_code(kernel) for each in rules() if isinstance(each, KernelRule) and not each.is_verdict]
    return sorted((each for each in found if each is not None), key=lambda each: -each.saving)


def runs_at_the_compute_limit(kernel: KernelProfile) -> bool:
    """Whether the arithmetic units are so busy that waits and memory accesses cost nothing."""
    sol = speed_of_light(kernel)
    return sol is not None and sol.compute >= HIGH_PERCENT
