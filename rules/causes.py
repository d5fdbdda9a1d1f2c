"""Causes: what one change takes away together. Their order is the order of everything that is said of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parsers.model.late import dataclass
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.gpu.launch_sizes import LongestKernel, longest_kernel
from rules.analysis.idle.causes import Cause as IdleCause
from rules.analysis.names.families import Family
from rules.analysis.recording.subject import subject_of
from rules.findings.base import LOUD, Category, Finding, Severity, severity_of
from rules.fixes.plan import Plan, Promise, plan_of
from rules.fixes.removal import removal_of, removed_share
from rules.fixes.step_time import StepTime, told_step_times
from rules.fixes.told import finding_of, gives_of, is_unreported, names_itself
from rules.ranking import AS_LARGE, after_waits, beside_a_pace, gives_less, limit_of, ranked, weight
from rules.terms import MAJORITY, CulpritKind
from rules.wording.words import Part, part_of_steps

IN_PART = 0.1  # of a finding's time: a change that takes so much of it is told beside it, where none takes most of it
ADDS_NOTHING = 1.02  # to the fixes before it: such a fix mends what one of them mends
FAR_MORE = 2.0  # than what a fix is named for: then it is told by what it takes most of
NEARLY_AS_MUCH = 0.9  # of what another one of its category tells: the narrower one tells it best
AS_MUCH = 0.8  # of what a cause gives: what then waits for one rank tells it best
OTHER_BASIS = 0.02  # of a step: by how much a share must differ from the recorded one to be told
LITTLE_THAT_MAY_BE_NOTHING = 0.1  # of a step
NOTEWORTHY_IDLE = 0.15  # of the window, without a known cause
CLEARLY_LARGER = 1.05  # times a problem: idle time without a cause that is about as large is what it leads to
MOSTLY_COMPUTING = 0.8  # of the window; then a problem that is small beside it is told after it
SMALL_BESIDE_COMPUTING = 0.1
SMALL_BESIDE_A_KERNEL = 0.33  # of the time of a single kernel that takes most of it
SMALLER_UNEXPLAINED = 0.5  # ... idle time that nobody can explain, and that nobody can mend
# times what mending the first problem gives: a wait that long limits the run, whatever mends it
FAR_LARGER_WAIT = 3.0
LIMITING_WAIT = 0.4  # of a step


@dataclass(frozen=True, slots=True)
class Cause:
    """What goes away together.

    ``fix`` is the id of the promise that takes it away, empty where no fix is known. ``findings`` are places in
    ``Diagnosis.findings``, first the one that tells it best; none where a fix is about something no rule reports.
    Where the fix is ``partial``, it takes only a part of what they report.
    """

    fix: str
    findings: tuple[int, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Ordered:
    """Findings in the order in which they are told, with shares of a step without the recorder, and their causes."""

    findings: tuple[Finding, ...]
    causes: tuple[Cause, ...]


def in_order(analysis: Analysis, plan: Plan, findings: Sequence[Finding]) -> Ordered:
    """Order findings by what fixing them gives; one without a fix stands where its share of a step puts it."""
    times = told_step_times(analysis)
    given = ranked([_without_recorder(each, times) for each in beside_a_pace(findings)])
    groups = _grouped(plan, given)
    told = [given[index] for _, members, _ in groups for index in members]
    beside = [each for each in given if not any(each is other for other in told)]
    promises = {each.id: each for each in plan.promises}
    order: list[Finding] = []
    causes = []
    for fix, members, partial in groups:
        places = tuple(range(len(order), len(order) + len(members)))
        mine = [replace(given[index], fix=fix, leads=not place) for place, index in enumerate(members)]
        if fix and names_itself(promises[fix]):
            mine = [finding_of(analysis, plan, promises[fix]), *(replace(each, leads=False) for each in mine)]
            places = tuple(range(len(order), len(order) + len(mine)))
        elif fix and mine:
            mine[0] = _with_what_it_delays(mine[0], promises[fix], mine[1:])
        elif fix and is_unreported(promises[fix], given):
            mine = [finding_of(analysis, plan, promises[fix])]
            places = (len(order),)
        order += mine
        causes.append(Cause(fix, places, partial))
    order += beside
    is_no_run = subject_of(analysis) is not None
    first = leading(analysis, order) or (None if is_no_run else limit_of(order))
    recorded = [each for each in beside if is_no_run and each.category is Category.WHAT_WAS_RECORDED]
    front = [*recorded, *([first] if first is not None and first not in recorded else [])]
    return _moved(order, causes, front)


def leading(analysis: Analysis, findings: Sequence[Finding]) -> Finding | None:
    """The finding that the first sentence is about; None where nothing stands out.

    Idle time that nobody can explain comes before problems that are smaller, and that the GPU computes nearly all the
    time before problems that are small beside it. Slow memory comes before what its kernels cost because of it. A
    program that sleeps for longer than that idle time until its next round is told of instead.
    """
    problem = limiting_problem(analysis, findings)
    slowed = next((each for each in findings if each.category is Category.SLOW_MEMORY), None)
    if slowed is not None and problem is not None and weight(slowed) >= problem.cost:
        return slowed
    unexplained = next((each for each in findings if each.category is Category.UNEXPLAINED_IDLE), None)
    asleep = max((weight(each) for each in findings if each.category is Category.PACED), default=0.0)
    least = max(NOTEWORTHY_IDLE, CLEARLY_LARGER * problem.cost if problem else 0.0, asleep)
    if (
        unexplained is not None
        and weight(unexplained) >= least
        and not is_small_beside_computing(analysis, unexplained)
    ):
        return unexplained
    if problem is not None and is_small_beside_computing(analysis, problem):
        return next((each for each in findings if _says_what_computes(analysis, each)), problem)
    return problem


def first_problem(findings: Sequence[Finding]) -> Finding | None:
    """The first finding that accuses something and is not negligible."""
    return next((each for each in findings if each.category.accuses and each.severity in LOUD), None)


def limiting_problem(analysis: Analysis, findings: Sequence[Finding]) -> Finding | None:
    """The first problem; or a wait far longer than what mending that gives, which then limits the run.

    A wait that another fix mends has its place among the fixes by what that gives, unless that is far less than it.
    """
    first = first_problem(findings)
    if first is None or first.of_recording or first.kernel is not None:
        return first
    plan = plan_of.kept(analysis)
    gives = {each.id: gives_of(each) for each in plan.promises} if plan is not None else {}
    least = max(LIMITING_WAIT, FAR_LARGER_WAIT * gives.get(first.fix, first.cost))
    waits = [
        each
        for each in findings
        if each.severity in LOUD
        and isinstance(each.category.about, IdleCause)
        and (each.fix in ("", first.fix) or each.share >= FAR_LARGER_WAIT * gives.get(each.fix, 1.0))
    ]
    longest = max(waits, key=lambda each: each.share, default=first)
    return longest if longest.share >= least else first


def is_small_beside_computing(analysis: Analysis, problem: Finding) -> bool:
    """Whether the GPU computes so much of the time, or one kernel takes so much, that a problem hardly matters."""
    if problem.of_recording or problem.kernel is not None:
        return False
    if problem.once:
        return weight(problem) < SMALL_BESIDE_COMPUTING
    cost = max(problem.cost, weight(problem))
    if cost < SMALL_BESIDE_COMPUTING and computing(analysis) >= MOSTLY_COMPUTING:
        return True
    longest = limiting_kernel(analysis, problem)
    unexplained = problem.category is Category.UNEXPLAINED_IDLE
    part = SMALLER_UNEXPLAINED if unexplained else SMALL_BESIDE_A_KERNEL
    return longest is not None and cost < part * longest.share


def limiting_kernel(analysis: Analysis, problem: Finding) -> LongestKernel | None:
    """A program's own kernel that takes most of the time and that a problem is not about; None where there is none."""
    longest = longest_kernel(analysis)
    if longest is None or longest.share < MAJORITY or longest.family is not Family.OTHER:
        return None
    is_about = problem.culprit.kind is CulpritKind.KERNEL and problem.culprit.name == longest.name
    return None if is_about or problem.category in (Category.SMALL_GRID, Category.FP64) else longest


def _says_what_computes(analysis: Analysis, finding: Finding) -> bool:
    of_a_cpu = finding.category is Category.WHAT_WAS_RECORDED and cpu_time(analysis) is not None
    return finding.category is Category.GPU_BOUND or of_a_cpu


def computing(analysis: Analysis) -> float:
    """The part of the window in which the GPU that computes least computes, or a CPU alone."""
    if analysis.window_ns <= 0:
        return 0.0
    if (alone := cpu_time(analysis)) is not None:
        return alone.computes if alone.is_all else 0.0
    if not len(analysis.trace.gpu_operations):
        return 0.0
    budgets = [analysis.budgets(device) for device in analysis.active_devices]
    return min((each.compute_ns for each in budgets), default=0) / analysis.window_ns


_Group = tuple[str, list[int], bool]


def _grouped(plan: Plan, findings: Sequence[Finding]) -> list[_Group]:
    """(fix, places among the findings, whether it takes only a part) of each cause, in order."""
    left = [
        index
        for index, each in enumerate(findings)
        if each.category.accuses and each.kernel is None and not each.of_recording
    ]
    with_fix: list[tuple[_Group, float]] = []
    for promise in plan.promises:
        members, partial = _taken(plan, promise, findings, left)
        left = [index for index in left if index not in members]
        same = _same_cause(promise, with_fix)
        if same is None:
            with_fix.append(((promise.id, members, partial), gives_of(promise)))
        else:
            group, gives = same
            late = [index for index in members if findings[index].category is Category.STRAGGLER]
            ahead = late if gives_of(promise) >= AS_MUCH * gives else []
            group[1][:] = [*ahead, *group[1], *(index for index in members if index not in ahead)]
    alone = [
        index
        for index, each in enumerate(findings)
        if (index in left or (each.of_recording and each.category.accuses)) and _counts(each)
    ]
    order = [group for group, _ in with_fix]
    for members in _of_late_ranks(plan.replay.analysis, alone, findings):
        told, first = findings.__getitem__, findings[members[0]]
        behind = with_fix[after_waits(first, (map(told, each[1]) for each, _ in with_fix)) :]
        lighter = [each for each, gives in behind if gives_less(gives, map(told, each[1]), first)]
        at = order.index(lighter[0]) if lighter else len(order)
        order.insert(at, ("", members, False))
    return order


def _of_late_ranks(analysis: Analysis, alone: Sequence[int], findings: Sequence[Finding]) -> list[list[int]]:
    """Findings by cause: with the rank that the others wait for go those that say what it does meanwhile.

    Where the others lose far more to the same than by waiting for that rank, it is a cause of its own.
    """
    late = {findings[index].rank: index for index in alone if findings[index].category is Category.STRAGGLER}
    found: dict[int, list[int]] = {late_one: [late_one] for late_one in late.values()}
    for index in alone:
        each = findings[index]
        explains = (
            isinstance(cause := each.category.about, IdleCause)
            and each.rank is not None
            and each.rank in late
            and _lost_by_others(analysis, cause, each) <= AS_LARGE * findings[late[each.rank]].share
        )
        found.setdefault(late[each.rank] if explains else index, []).append(index)
    return [
        list(dict.fromkeys(found[index]))
        for index in sorted(found, key=lambda key: min(alone.index(one) for one in found[key]))
    ]


def _lost_by_others(analysis: Analysis, cause: IdleCause, late: Finding) -> float:
    """The part of the window that GPUs of other ranks idle on average for a cause; at most what a late one does."""
    lost = [
        analysis.budgets(device).idle_ns[cause]
        for device in analysis.active_devices
        if analysis.trace.devices[device].rank != late.rank
    ]
    return min(sum(lost) / max(len(lost) * analysis.window_ns, 1), late.share) if lost else late.share


def _taken(
    plan: Plan, promise: Promise, findings: Sequence[Finding], left: Sequence[int]
) -> tuple[list[int], bool]:
    """The findings that a fix takes away, first the one it is named for; and whether only a part of that goes."""
    left = [index for index in left if _may_go(findings[index], promise)]
    removal = removal_of(plan.replay, promise.proposal)
    parts = {index: removed_share(removal, promise.proposal, findings[index]) for index in left}
    mine = [
        index for index in left if parts[index] >= MAJORITY and findings[index].severity is not Severity.INFO
    ]
    if names_itself(promise):
        return mine, False
    named = [index for index in left if findings[index].category in promise.proposal.categories]
    first = max(named, key=lambda index: parts[index] * findings[index].share, default=-1)
    alike = [
        index
        for index in named
        if findings[index].category is findings[first].category
        and parts[index] * findings[index].share >= NEARLY_AS_MUCH * parts[first] * findings[first].share
    ]
    first = max(alike, key=lambda index: (round(parts[index], 2), -findings[index].share), default=first)
    loud = [index for index in left if findings[index].severity is not Severity.INFO]
    takes = {index: parts[index] * findings[index].share for index in left}
    best = max(loud, key=lambda index: takes[index], default=-1)
    own_time = first >= 0 and not isinstance(findings[first].category.about, IdleCause)
    if own_time and best >= 0 and parts[best] >= IN_PART and takes[best] >= FAR_MORE * takes[first]:
        first = best
    elif first >= 0 and findings[first].severity is Severity.INFO:
        ahead = [index for index in loud if _passes_meanwhile(findings[index], promise)]
        if ahead:  # the CPU then runs ahead of the GPU: what it does costs nothing any more
            return [max(ahead, key=lambda index: findings[index].share), first], False
    if first < 0 or (mine and parts[first] < IN_PART):
        return mine, False
    return [first, *(index for index in mine if index != first)], parts[first] < MAJORITY


def _may_go(finding: Finding, promise: Promise) -> bool:
    """Whether a fix can mend a finding: how a kernel is launched stays as it is, however often it then runs, half the
    bytes fuse no kernels, and one rank's work makes no other one late."""
    category, categories = finding.category, promise.proposal.categories
    if category is Category.STRAGGLER and promise.proposal.rank not in (None, finding.rank):
        return False
    if category is Category.MEMORY_BOUND_KERNELS and Category.FP64 in categories:
        return False
    return category is not Category.SMALL_GRID or Category.SMALL_GRID in categories


def _passes_meanwhile(finding: Finding, promise: Promise) -> bool:
    """Whether what a fix of waits gives is mostly what the CPU's own work costs: it stays, and passes meanwhile."""
    of_waits = Category.SYNCHRONIZATION in promise.proposal.categories
    gives = gives_of(promise)
    return of_waits and finding.category is Category.HOST_BOUND and MAJORITY * gives <= finding.share <= gives


def _same_cause(promise: Promise, before: Sequence[tuple[_Group, float]]) -> tuple[_Group, float] | None:
    """The cause, and what mending it gives, to which a fix adds nothing: it is another way to mend the same."""
    if promise.after_others >= ADDS_NOTHING or promise.proposal.redesign:
        return None
    gives = gives_of(promise)
    return next((each for each in before if each[1] >= gives), None)


def _counts(finding: Finding) -> bool:
    """Whether a finding that no fix mends is a cause of its own."""
    return finding.severity is not Severity.INFO or finding.category is Category.UNEXPLAINED_IDLE


def _without_recorder(finding: Finding, times: Mapping[int, StepTime]) -> Finding:
    """A finding whose share is that of a step without the recorder; the same where that is not known.

    Where nothing is left of it, it is told as recorded, as information: what the recorder takes is known to a factor.
    """
    about = finding.category.about
    if about is None or finding.of_recording or finding.kernel is not None or not times:
        return finding
    key = PARTS_OF_FAMILIES.get(about, "compute") if isinstance(about, Family) else about.key
    # a late rank costs the others' time
    device = None if finding.category is Category.STRAGGLER else finding.device
    time = times.get(-1 if device is None else device)
    time = time or max(times.values(), key=lambda each: each.recorded.get(key, 0.0))
    scale = time.scale(key) if key in time.parts else time.fixed_scale
    if not scale:
        account = finding.account + " The profiler may account for all of it."
        return replace(finding, usual_share=0.0, severity=Severity.INFO, account=account)
    return _told_as(finding, finding.share * scale, scale, time)


PARTS_OF_FAMILIES = {Family.COPY: "copy", Family.COLLECTIVE: "communication"}


def _told_as(finding: Finding, share: float, scale: float, time: StepTime) -> Finding:
    share = min(share, 1.0)
    amount = finding.headline.amount
    differs = percent(share) != percent(finding.share)
    if isinstance(amount, Part):
        amount = replace(amount, share=min(amount.share * scale, 1.0), without_profiler=differs)
    account = finding.account
    if differs:
        told = _of_time(amount, share, time, finding.window_ns)
        account = account + f" Without the profiler it is {told}."
    by_share = finding.severity is severity_of(finding.ceiling_ns, finding.window_ns)
    return replace(
        finding,
        usual_share=share,
        headline=replace(finding.headline, amount=amount),
        account=account,
        severity=severity_of(share, 1.0) if by_share else finding.severity,
    )


def _of_time(amount: object, share: float, time: StepTime, window_ns: float) -> str:
    """ "26.5 of the 46.4 ms of a step (57 %)", or of a typical one where some were slow by chance.

    The percentage alone where only some steps hold it. So, too, where the usual step is longer than the finding's own,
    which its other figures are of.
    """
    if not isinstance(amount, Part):
        return f"{percent(share)} of the time"
    length_ns = time.length_ns
    if amount.few or length_ns * amount.steps > window_ns:
        return f"{percent(amount.share)} of the time"
    step = "a step" if time.is_mean else "a typical step"
    told = part_of_steps(amount.share * length_ns, length_ns, min(amount.steps, 1), step)
    return f"{told} ({percent(amount.share)})"


def with_recorder(finding: Finding, times: Mapping[int, StepTime]) -> Finding:
    """A finding of ``in_order`` whose share is that of a step as recorded, of which the recorder is a part."""
    if finding.category.about is None or finding.of_recording or finding.kernel is not None or not times:
        return finding
    device = finding.device if finding.device is not None else -1
    time = times.get(device) or next(iter(times.values()))
    if not time.is_told:
        return finding
    scale = 1.0 - time.recorder_share
    amount = finding.headline.amount
    if isinstance(amount, Part):
        amount = replace(
            amount, share=amount.share * scale, with_delays=amount.with_delays * scale, without_profiler=False
        )
    return replace(
        finding,
        usual_share=finding.share * scale,
        with_delays=finding.with_delays * scale,
        headline=replace(finding.headline, amount=amount),
    )


def _with_what_it_delays(finding: Finding, promise: Promise, others: Sequence[Finding]) -> Finding:
    """A finding whose fix saves more than its own time: what follows from it goes as well, and is part of the cause.

    Its share stays that of its own time, as the bar shows it. Where the fix is named for another finding of the cause,
    the others' parts stay with them. What is of some steps keeps its share of all steps, which were not all replayed.
    It becomes more severe unless what the fix gives is little, and possibly nothing.
    """
    is_named = finding.category in promise.proposal.categories
    told = 0.0 if is_named else sum(each.share for each in others)
    gives = gives_of(promise) - told
    few = isinstance(finding.headline.amount, Part) and finding.headline.amount.few
    if gives <= finding.share or few:
        return finding
    account, headline, amount = finding.account, finding.headline, finding.headline.amount
    own = amount.share if isinstance(amount, Part) else finding.share
    if gives >= own + OTHER_BASIS:
        account += f" Including what it delays, it costs {percent(gives)} of a step."
        if isinstance(amount, Part):
            headline = replace(headline, amount=replace(amount, with_delays=gives))
    if told >= OTHER_BASIS:
        account += (
            f" Its fix also removes other findings: a step would be {percent(gives_of(promise))} shorter."
        )
    doubtful = promise.low < 1.0 and gives < LITTLE_THAT_MAY_BE_NOTHING
    costing = _costing(replace(finding, headline=headline, account=account), gives)
    return replace(costing, severity=finding.severity) if doubtful else costing


def _costing(finding: Finding, cost: float) -> Finding:
    """A finding that costs a larger share of a step than its own time is."""
    severity = max(finding.severity, severity_of(cost, 1.0), key=lambda each: _LOUDNESS[each])
    return replace(finding, with_delays=cost, severity=severity)


_LOUDNESS = {Severity.HIGH: 3, Severity.MEDIUM: 2, Severity.LOW: 1, Severity.INFO: 0}


def _moved(order: list[Finding], causes: list[Cause], front: list[Finding]) -> Ordered:
    """The same with some findings before all others, each with the cause it belongs to."""
    ahead = [index for each in front for index, other in enumerate(order) if other is each]
    whole = [*ahead, *(index for index in range(len(order)) if index not in ahead)]
    place = {index: at for at, index in enumerate(whole)}
    moved = [replace(each, findings=tuple(place[index] for index in each.findings)) for each in causes]
    return Ordered(tuple(order[index] for index in whole), tuple(moved))
