"""The order of findings: by ceiling, but of two about as large the one with a cause of its own comes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rules.findings.base import Category, Finding, Severity
from rules.terms import NEARLY_ALL

# One program recorded twice, by two profilers or on two machines, spends between 0.6 and 1.6 times as long in the same
# calls (docs/decisions/0013): the ratio of two CPU-side ceilings is known to about a factor of two.
AS_LARGE = 2.0
# Of 42 % of a step in products of single precision, replaying them faster gave 7 % where the GPU waited for the CPU for
# 17 % of it: it would have waited longer.
BEHIND_THE_CPU = 3.0
OF_SLOW_OPERATORS = 0.5  # another layout left 0.4 of the time of some operators and nearly all of others'
_KERNELS = frozenset(
    {
        Category.NO_TENSOR_CORES,
        Category.MEMORY_BOUND_KERNELS,
        Category.LAYOUT_CONVERSION,
        Category.GEMM_SHAPE,
        Category.SLOW_OPERATOR,
        Category.FP64,
    }
)
_OF_THE_CPU = frozenset(
    {Category.INPUT_BOUND, Category.HOST_BOUND, Category.LAUNCH_BOUND, Category.ALLOCATOR}
)
# whose time counts, and not what they could give back: nobody knows that, or it is nothing
_BY_TIME = frozenset({Category.UNEXPLAINED_IDLE, Category.SLOW_MEMORY, Category.PACED})
_LOUDNESS = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2, Severity.INFO: 3}


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by the share of their window that they could give back, largest first; before all what was recorded.

    Idle time that nobody can explain stands where its size puts it, although nobody knows what there is to gain.
    Launch overhead is what is left when no call or region can be named. It comes after findings of its own severity
    that name one and are about as large (``AS_LARGE``). Slow operators come after conversions of their severity: the
    layout that ends these makes them faster. Faster kernels give little while the GPU waits for the CPU, so
    they come after such waits where these are high, too (``BEHIND_THE_CPU``). Everything else stays in the order of its
    size.
    """
    order = sorted(
        findings,
        key=lambda each: (
            each.category is not Category.WHAT_WAS_RECORDED,
            -weight(each),
            _LOUDNESS[each.severity],
        ),
    )
    behind = (Category.LAUNCH_BOUND, Category.SLOW_OPERATOR)
    for rest in [each for each in order if each.category in behind]:
        at = next(index for index, each in enumerate(order) if each is rest)
        last = max((index for index, each in enumerate(order) if _says_more(each, rest)), default=at)
        if last > at:
            order = [*order[:at], *order[at + 1 : last + 1], rest, *order[last + 1 :]]
    for wait in [each for each in order if each.category in _OF_THE_CPU]:
        at = next(index for index, each in enumerate(order) if each is wait)
        first = next((index for index, each in enumerate(order[:at]) if _is_kept_waiting(each, wait)), at)
        order = [*order[:first], wait, *order[first:at], *order[at + 1 :]]
    return order


def beside_a_pace(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Where a program keeps a pace, nothing else costs it time: it sleeps that much longer."""
    if not any(each.category is Category.PACED for each in findings):
        return findings
    loud = (Severity.HIGH, Severity.MEDIUM)
    return [
        replace(each, severity=Severity.LOW)
        if each.category.accuses and each.severity in loud and not (each.of_recording or each.kernel)
        else each
        for each in findings
    ]


def limit_of(findings: Sequence[Finding]) -> Finding | None:
    """What the first sentence is about where nothing is accused: that the program keeps a pace, or the GPU limits."""
    limits = [each for each in findings if each.category in (Category.PACED, Category.GPU_BOUND)]
    return min(limits, key=lambda each: each.category is not Category.PACED, default=None)


def weight(finding: Finding) -> float:
    """The share of the window that it could give back; of idle time without a known cause, the share that it is.

    So, too, of time in which memory is slow: all that is said of these kernels is then said of a slowed GPU. And of
    the sleep of a program that keeps a pace: the more of it, the less all else matters.

    One wait that is like no other may not come again: only the others count.

    Of operators of a GPU that are slow by themselves half: for some there is no faster kernel. What is said of a
    profiled kernel as information gives nothing: such kernels stay in the order of their time.
    """
    if finding.kernel is not None and finding.severity is Severity.INFO:
        return 0.0
    if finding.category is Category.SLOW_OPERATOR and not finding.of_the_cpu_alone:
        return finding.share * OF_SLOW_OPERATORS
    if finding.once:
        return finding.share * (1.0 - finding.once)
    if finding.category not in _BY_TIME or not finding.window_ns:
        return finding.share
    return min(sum(end - start for start, end in finding.intervals) / finding.window_ns, 1.0)


def gives_less(gives: float, mended: Iterable[Finding], rest: Finding) -> bool:
    """Whether a fix of some findings gives less than what none mends; nearly as much is enough beside launching.

    For that is what is left where nothing is named, so that what is named must be nearly as large itself.
    """
    enough = NEARLY_ALL * weight(rest)
    named = max(map(weight, mended), default=0.0)
    return gives < (enough if rest.category is Category.LAUNCH_BOUND and named >= enough else weight(rest))


def after_waits(finding: Finding, causes: Iterable[Iterable[Finding]]) -> int:
    """How many of these causes come before faster kernels: up to the last one that they would only wait longer for."""
    waits = [
        any(_is_kept_waiting(finding, each) for each in cause if each.category in _OF_THE_CPU)
        for cause in causes
    ]
    return max((place for place, waited_for in enumerate(waits, 1) if waited_for), default=0)


def _says_more(finding: Finding, rest: Finding) -> bool:
    if rest.category is Category.SLOW_OPERATOR:
        return finding.category is Category.LAYOUT_CONVERSION and finding.severity is rest.severity
    return (
        finding.category.own_cause
        and not finding.divided
        and finding.severity is rest.severity
        and weight(finding) * AS_LARGE >= rest.share
    )


def _is_kept_waiting(finding: Finding, wait: Finding) -> bool:
    return (
        finding.category in _KERNELS
        and not finding.of_the_cpu_alone
        and finding.severity is wait.severity is Severity.HIGH
        and wait.share * BEHIND_THE_CPU >= finding.share
    )
