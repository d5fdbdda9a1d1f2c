"""The GPU waits for the CPU, which is busy with something that launches no GPU work."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, Trace
from parsers.model.names.calls import Call, call_of, is_prefetch
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, intersect, length, measure, union
from rules.analysis.idle.attribution import TOUCHES_PAGES
from rules.analysis.idle.causes import Cause
from rules.analysis.names.host_language import host_code
from rules.analysis.names.software import is_compiled
from rules.analysis.steps.first_use import slow_first_calls
from rules.analysis.stretches.script_compiling import script_compiling
from rules.findings.base import (
    Category,
    Finding,
    Need,
    Remedy,
    Rule,
    Severity,
    remedy,
    rule,
    severity_of,
    severity_of_once,
)
from rules.losses.asleep import slept
from rules.losses.beneath import Beneath, beneath, locked_out
from rules.losses.lost_time import IdleTime, idle_finding
from rules.losses.plan_building import plan_building
from rules.remedies.compiling import COMPILED_SCRIPTS
from rules.remedies.copies import ON_THE_GPU_OR_ONCE, PREFETCH_PAGES, PREFETCH_SELDOM
from rules.remedies.engines import later_steps
from rules.remedies.host_work import (
    PROCESSES_FOR_THREADS,
    beside_launches,
    by_name,
    few_lengths,
    is_compilation,
    is_pass,
    off_the_path,
)
from rules.terms import MAJORITY, MIN_SHARE, NEARLY_ALL, Culprit, CulpritKind
from rules.wording.words import Words, for_native, for_python, for_pytorch, has_stacks, ours, share

SHORT = 0.05  # of the time: one burst of work that takes no longer is no run
ONE_CULPRIT = 0.8  # of the waiting: then one culprit is all that needs saying
STANDS_OUT = 3.0  # times the next longest wait: it is like no other


@rule
class WaitingForPython(Rule):
    id = "waiting-for-python"
    category = Category.HOST_BOUND
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS})
    explanation = """
What it found
    The GPU has finished all its work while the CPU does something that gives it none: Python code, tokenising,
    logging, metrics, kernel loading, compilation.

Why it costs time
    Only the CPU launches GPU work. While the CPU does something else on the same thread, the GPU's queue runs empty
    and stays empty.

How it decides
    It takes each gap on the GPU and the thread that ended it. The time counts as waiting for the host when that
    thread launched nothing for at least {launch-pause} and ten times its usual distance between launches, or was
    inside a region that launches nothing at all and lasts at least 0.1 ms. Data loading, allocation and
    synchronisation are counted separately, and short pauses between launches count as launch overhead.

    Python's garbage collections are recognised by ranges or frames of that name. If the launching threads record
    nothing for at least 1 ms while other threads go from frame to frame, those hold the GIL; Nsight Systems (osrt)
    shows such waits as pthread_cond_timedwait of 5 ms. If the thread sleeps for most of it, sleeping-thread tells it.

    Where nothing repeats and half of the waiting lies in calls that take at least 1 ms because they are made for the
    first time (a stream or context is created, code is loaded, a kernel is launched), it is start-up, not a fault.
    Where no steps were found and one wait is nearly all of it, or all but such calls, it says so, and nothing tells
    that it comes again. The same holds for several waits where the GPU does nearly all of its work between two of them,
    in a twentieth of the time. A wait that is most of it, three times as long as any other and shorter than what the
    GPU computes meanwhile, is told after what repeats.

What to try
    Move the work off the critical path: into a thread or process that prepares the next step, after the launches of
    the next step, or onto the GPU. Do it less often. Make it faster. If cuDNN or MIOpen builds a plan for each new
    shape, pad to a few lengths: some calls of its operator then take 20 times longer than the others, or the waits
    end with newly loaded code and a kernel that cuDNN generated.

When it is wrong
    A recording with Python stacks slows Python down, so the real share is smaller. Work in a C extension without a
    region appears as "Python outside any region".
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        waiting = IdleTime(analysis, Cause.HOST)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
            return
        sleep = slept(waiting)
        if sleep.is_most:
            return
        culprit, below, plans = waiting.culprit, beneath(waiting), plan_building(waiting)
        called = _calling(culprit, below)
        locked = locked_out(waiting)
        compiling = sum(each.ns for each in waiting.blames if is_compilation(each.culprit))
        starts = analysis.steps_in_window < 2 and _made_first(waiting) >= MAJORITY * waiting.worst_ns
        at_first = _in_first_calls(waiting)
        scripted = _in_first_scripts(waiting) >= MAJORITY * waiting.worst_ns
        once = not analysis.steps_in_window and _is_one_wait(waiting, at_first)
        burst = 0 if analysis.steps_in_window or once else _burst_ns(waiting)
        part_once = 0.0 if analysis.steps_in_window else _part_once(waiting)
        recompiles = analysis.steps_in_window > 1 and compiling >= MAJORITY * waiting.worst_ns
        yield idle_finding(
            self,
            waiting,
            what="The model is compiled again"
            if recompiles
            else f"{plans.who} builds a new plan for each new shape"
            if plans
            else "TorchScript compiles in its first calls"
            if scripted
            else "First calls are slow"
            if starts
            else "Prefetching unified memory holds up the CPU"
            if is_call(culprit) and is_prefetch(culprit.name)
            else f"The GPU works once, and waits for {host_code(trace)} around that"
            if burst
            else f"The GPU waits{' once' if once else ''} for {host_code(trace)}",
            account=_explanation(analysis, waiting)
            + below.text
            + sleep.text
            + locked.text
            + (plans.text if plans else "")
            + (_RECOMPILES if recompiles else "")
            + (
                _SCRIPTED
                if scripted
                else _AT_FIRST
                if starts
                else _start_up_around(burst)
                if burst
                else _may_not_come_again(waiting, at_first)
                if once
                else _ONE_OF_THEM
                if part_once
                else ""
            ),
            remedy=few_lengths(plans.is_of_attention)
            if plans
            else PROCESSES_FOR_THREADS
            if locked.is_most
            else COMPILED_SCRIPTS
            if scripted
            else remedy(*_OF_CALLS, code=for_pytorch(_WARM_UP))
            if starts
            else remedy(_RECORD_MORE, *later_steps(trace))
            if burst
            else (ON_THE_GPU_OR_ONCE if below.samples else PREFETCH_PAGES)
            if culprit == TOUCHES_PAGES
            else _remedy(waiting, called, is_compiled(trace), is_known=bool(below)),
            culprit=called,
            unknown=()
            if below or plans or locked.is_most
            else ("" if is_call(culprit) else _UNKNOWN_OF_NATIVE, _cannot_tell(trace, culprit)),
            category=Category.RECOMPILATION if recompiles else Category.WARM_UP if scripted else None,
            of_recording=scripted,
            severity=severity_of_once(waiting.worst_ns, analysis.window_ns)
            if scripted
            else Severity.INFO
            if starts
            else Severity.MEDIUM
            if (once or burst or part_once)
            and severity_of(waiting.worst_ns, analysis.window_ns) is Severity.HIGH
            else None,
            once=0.0 if scripted or starts else part_once,
        )


def _made_first(waiting: IdleTime) -> int:
    """How much of it lies in calls that create or load something because it is the first time, in ns."""
    events, calls = waiting.analysis.trace.events, slow_first_calls(waiting.analysis.trace)
    return length(intersect(waiting.intervals, union(*events.spans(calls))))


def _in_first_scripts(waiting: IdleTime) -> int:
    """How much of it TorchScript compiles, in ns: code that calls its operators without Python in between."""
    threads = waiting.analysis.threads.drivers(waiting.device)[0]
    return sum(
        length(intersect(waiting.intervals, script_compiling(waiting.analysis, each))) for each in threads
    )


def _in_first_calls(waiting: IdleTime) -> BOOL:
    """Which of its intervals lie, for the most part, in such calls."""
    events, calls = waiting.analysis.trace.events, slow_first_calls(waiting.analysis.trace)
    spent = measure(union(*events.spans(calls)), *waiting.intervals)
    return np.asarray(spent >= MAJORITY * (waiting.intervals[1] - waiting.intervals[0]))


def _is_one_wait(waiting: IdleTime, at_first: BOOL) -> bool:
    """Whether nearly all of it, but for what lies in calls that are slow the first time, is one wait."""
    took = (waiting.intervals[1] - waiting.intervals[0])[~at_first]
    return bool(len(took) and took.max() >= NEARLY_ALL * took.sum()) and waiting.longest_ns >= (
        NEARLY_ALL * (waiting.worst_ns - _ns_of(waiting, at_first))
    )


def _burst_ns(waiting: IdleTime) -> int:
    """How long the one burst takes in which the GPU does nearly all of its work, in ns; 0 where it is no short one."""
    analysis = waiting.analysis
    events, (start, end) = analysis.trace.events, analysis.window
    starts, ends = clip(union(*events.spans(analysis.trace.operations_of_device(waiting.device))), start, end)
    waits = np.searchsorted(
        waiting.intervals[0], starts, side="right"
    )  # how many come before each piece of work
    done = np.bincount(waits, ends - starts)
    most = int(done.argmax())
    mine = waits == most
    took = int(ends[mine].max() - starts[mine].min())
    return took if done[most] >= NEARLY_ALL * done.sum() and took <= SHORT * (end - start) else 0


def _start_up_around(burst: int) -> str:
    return (
        f" Nearly all of the GPU's work is one burst of {duration(burst)}, and nothing repeats: as far as this "
        "recording tells, it is start-up."
    )


def _part_once(waiting: IdleTime) -> float:
    """The part of it that is one wait, shorter than what the GPU computes; 0 where it does not stand out."""
    took = np.sort(waiting.intervals[1] - waiting.intervals[0])
    longest = int(took[-1]) if len(took) else 0
    others = int(took[-2]) if len(took) > 1 else 0
    computes = waiting.analysis.budgets(waiting.device).compute_ns
    stands_out = longest >= STANDS_OUT * others and longest >= MAJORITY * waiting.worst_ns
    return longest / waiting.worst_ns if stands_out and longest < computes else 0.0


def _may_not_come_again(waiting: IdleTime, at_first: BOOL) -> str:
    if not (first := _ns_of(waiting, at_first)):
        return " It is one wait, and no other in this recording is like it: it may not come again."
    return (
        f" Of this, {duration(first)} passes in calls that take long because it is the first time, and the rest is one "
        "wait: neither may come again."
    )


def _ns_of(waiting: IdleTime, chosen: BOOL) -> int:
    return int((waiting.intervals[1] - waiting.intervals[0])[chosen].sum())


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
    first = waiting.blames[0]
    part, longest = waiting.part, duration(waiting.longest_ns)
    if first.ns < ONE_CULPRIT * waiting.worst_ns:
        where = waiting.where(4)
        return (
            f"The CPU is busy with something other than launching, and the GPU has finished its queue: {part}, the "
            f"longest wait {longest}. Where{waiting.on_worst}: {where}."
        )
    text = (
        f"{_doing(first.culprit)}, nothing is launched and the GPU has finished its queue: {part}. "
        f"{first.culprit.said} alone takes {waiting.extent.told(first.ns)}{waiting.on_worst}, "
        f"the longest wait {longest}."
    )
    least = analysis.thresholds[MIN_SHARE]
    others = [each for each in waiting.blames[1:] if share(analysis, each.ns) >= least]
    return f"{text} Also: {waiting.named(others[:3])}." if others else text


def _doing(culprit: Culprit) -> str:
    if is_call(culprit):
        return f"While the CPU is inside {culprit.said}"
    outside = culprit.is_in(CulpritKind.OUTSIDE)
    return f"While {culprit.said} runs" if outside else f"While {culprit.said} runs on the CPU"


def is_call(culprit: Culprit) -> bool:
    """Whether the culprit is a known API call, alone or in an operator."""
    return culprit.kind is CulpritKind.CALL and call_of(culprit.name) is not Call.OTHER


def _calling(culprit: Culprit, below: Beneath) -> Culprit:
    """A frame with what it calls in a library for most of the time; other culprits as they are."""
    if not below.call or culprit.name != below.frame:
        return culprit
    return Culprit(CulpritKind.FRAME, below.call, culprit, at=culprit.at)


def _remedy(waiting: IdleTime, culprit: Culprit, compiled: bool, *, is_known: bool) -> Remedy:
    named = by_name(culprit)
    sometimes = for_python(
        f"It happens {waiting.extent.text}: look for what does not run in every step. Garbage collection can be "
        "moved (gc.disable(), and gc.collect() every few hundred steps); log, save and evaluate less often."
    )
    found = (
        named
        if named and not is_call(culprit)
        else Remedy(_advice(culprit, waiting.inside_culprit(), compiled))
    )
    last = (sometimes,) if waiting.extent.few and not named else ()
    return beside_launches((*found.advice, *last), found.code, is_known=is_known)


def _advice(culprit: Culprit, launches: int, compiled: bool) -> tuple[Words, ...]:
    if is_call(culprit) and is_prefetch(culprit.name):
        return PREFETCH_SELDOM
    if is_call(culprit):
        return _OF_CALLS
    if culprit.is_in(CulpritKind.OUTSIDE):
        return off_the_path("")
    if culprit.kind is CulpritKind.OPERATOR and culprit.name.startswith("aten::"):
        return (*off_the_path(culprit.name), *(() if compiled else (_COMPILE_AROUND,)))
    if launches or is_pass(culprit):
        return (
            for_pytorch(
                f"Find out what {culprit.said} does between its launches: hooks, bookkeeping, graph breaks, "
                "conversions on the CPU."
            ),
            *(() if compiled else (_COMPILE,)),
        )
    return off_the_path(culprit.said)


_COMPILE_AROUND = for_python(
    "Compile the code around it (torch.compile), so that many operators become one launch."
)
_COMPILE = for_python(
    ours("Compile it (torch.compile) or capture it as a $CUDA graph, so that Python does not run in between.")
)
_AT_FIRST = (
    " They create or load something because it is the first time, and nothing in this recording repeats."
)
_RECORD_MORE = "Record several steps or requests, after the first ones."
_ONE_OF_THEM = (
    " Most of it is the longest wait, which is like no other in this recording: it may not come again."
)
_SCRIPTED = (
    " TorchScript watches its first call and compiles in the next ones: its later calls do not pause like this, so it "
    "does not come again until inputs have other shapes."
)
_WARM_UP = """for _ in range(3):
    step()                    # creates contexts, loads code and asks for memory
torch.cuda.synchronize()
with torch.profiler.profile() as prof:
    step()"""
_RECOMPILES = " torch.compile runs in steady steps: usually its input shapes change from step to step."
_UNKNOWN_OF_NATIVE = for_native(ours("What the CPU does there: record $NVTX ranges or CPU samples."))
_OF_CALLS = (
    ours(
        "A call that takes this long usually loads a kernel's code on first use: run a few warm-up steps before "
        "measuring$OrLoadEagerly."
    ),
    "If it is slow in later steps too, check what else holds up the driver: other threads, other processes on this "
    "GPU, full memory.",
)


def _cannot_tell(trace: Trace, culprit: Culprit) -> str:
    if has_stacks(trace):
        return f"Which lines of {culprit.said} are slow: use a CPU profiler such as py-spy on this process."
    if culprit.is_in(CulpritKind.OUTSIDE):
        return (
            "What the CPU does there: record with stacks (with_stack=True), or add record_function regions. Stacks "
            "also show when another thread holds the GIL, and stallscope capture records garbage collection."
        )
    if is_call(culprit):
        return (
            "How many pages it moves, and from where: the copies of unified memory in the recording."
            if is_prefetch(culprit.name)
            else "What the driver does in that call."
        )
    return (
        f"Which part of {culprit.said} is slow: record with stacks (with_stack=True) or put record_function regions "
        "around its parts."
    )
