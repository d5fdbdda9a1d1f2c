"""A recording without any work of a GPU: where its CPU spent the time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute, EventKind, Trace
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import complement, length, subtract, union
from rules.analysis.cpu.cpu_time import CpuTime, Shares, cpu_time, cpu_time_beside_calls
from rules.analysis.idle.threads import ThreadActivity
from rules.analysis.names.operators import waits_for_a_process
from rules.analysis.names.regions import is_loader
from rules.analysis.names.software import software_of
from rules.analysis.recording.completeness import completeness_of
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.losses.cpu_work import MAX_NAMED, MIN_NAMED, Products, named_shares, own_lines, products_of
from rules.remedies.costly_forms import PICK_WITHOUT_SORTING
from rules.remedies.cpu_work import (
    ALL_CORES,
    FALLBACK_CONVOLUTION,
    FAST_CONVOLUTION,
    FEWER_THREADS,
    LARGE_OPERATORS,
    OUTSIDE_OPERATORS,
    SINGLE_PRECISION,
)
from rules.remedies.host_work import by_name
from rules.remedies.remedy import Remedy
from rules.terms import MAJORITY, NEARLY_ALL, NOBODY, Culprit, CulpritKind, quoted
from rules.wording.words import Headline, Words, for_pytorch, listed, of_every_step, shortened, without_times

MAX_NAME_LENGTH = 26  # in the title
MIN_BUSY = 0.01  # of the time: what takes less says nothing about it
MIN_SILENCE = 0.2
MIN_PROFILER = 0.03  # of the time
MANY_CALLS = 5  # of an operator: of fewer, the first may simply be the large one
LONG_PRODUCT_NS = 100_000  # on average
FEW_OPERATORS, SHORT_NS = 20, 1_000_000  # so few in so short a time are a single call
MIN_OF_A_CORE = 1e9  # operations a second: a single core of any kind multiplies matrices faster
_CODE = """with torch.profiler.profile(with_stack=True) as profiler:  # names the lines that the CPU runs
    run()"""

_RECORD_THE_GPU = remedy(
    "See Flame and Operators for what the CPU runs. If it was meant to run on a GPU, check whether model and "
    "tensors are there.",
    code=_CODE,
)
_RECORD_WHAT_IT_STARTED = remedy(
    "Record what the GPU ran as well: of its work, the times here are only those of launching it and waiting for it.",
    "Leave out the first steps: a first call loads code, and may try several kernels.",
    code=_CODE,
)
_ASK_OTHERS = remedy(
    "Record these processes as well: what they do meanwhile is what this one waits for.",
    "Send the next piece of work, or ask for the next message, before the last one is needed (rpc_async, isend, "
    "irecv), so that all work at the same time.",
)
_GPU_TOO = "Record the GPU as well: of the CPU, hardly anything was recorded."
_LOAD_BESIDE = (
    "If every batch takes as long as this one, load in worker processes (num_workers), and make each sample "
    "cheaper."
)
_RECORD_MORE = remedy(
    "Record several steps, after the first ones: torch.profiler.schedule(wait=5, warmup=2, active=5)."
)
_RECORD_WITH_TIMES = remedy(
    "The driver gave the profiler no times for GPU work. Record again on another machine, or after updating the "
    "driver; nsys profile --trace=cuda,nvtx shows whether GPU times can be recorded there at all."
)

_WITHOUT_SHAPES = for_pytorch(
    "Which of these operators are needless: most checks for that need tensor shapes. Record with record_shapes=True."
)


@rule
class CpuRecording(Rule):
    id = "cpu-recording"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.CPU_EVENTS})
    of_the_cpu_alone = True
    explanation = f"""
What it found
    The recording contains CPU work and no GPU work: no kernels, and mostly no calls that launch any.

Why it costs time
    It does not. Nothing waits for a GPU here; the time is what the CPU runs.

How it decides
    For the thread that is busiest in the analysed time, each moment is assigned to the innermost operator if
    operators account for {percent(MAJORITY)} of it and nothing hints at a GPU. Otherwise it is assigned to
    the innermost region; if there are no regions, or one holds {percent(NEARLY_ALL)} or more, to the innermost Python
    frame, otherwise to the innermost operator, which also takes precedence over regions if one takes longer than any
    of them. Anything with at least {percent(MIN_NAMED)} of that time is named, and next to regions also operators
    and the user's own functions; so is time in which nothing recorded runs, if that is {percent(MIN_SILENCE)} of
    the time. From {percent(MAJORITY)} on the first sentence says so, where nothing else is long. Where a call of
    PyTorch's RPC or a message takes longest, the program waits for other processes. Calls to the driver are named as
    well; so is an operator's first call if it takes {percent(MIN_SILENCE)} of the time and {percent(NEARLY_ALL)} of
    that of more than {MANY_CALLS} calls. With shapes, it reports how fast matrices are multiplied. If what was recorded
    takes less than {percent(MIN_BUSY)} of the time, recording the GPU as well comes first. TensorFlow's timelines draw
    operators that run at once in rows, which are no threads: of these, each one's share of the time of all is told.

What to try
    Use all cores, a shorter number format and torch.compile; or fewer threads, if slow products have hardly anything
    to compute. If the program was meant to run on a GPU, check whether its model and tensors are there, and record
    the GPU as well.

When it is wrong
    If the GPU was working but was not recorded, and no operator shows it. A recording of calls without their kernels
    is recognised: the calls that launch kernels are recorded then. A file that was cut off before the kernels is not
    judged.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace, time = analysis.trace, cpu_time(analysis) or cpu_time_beside_calls(analysis)
        if trace.quality.operators_lie_in_rows and not len(trace.gpu_operations):
            yield self._of_rows(analysis)
            return
        if time is None:
            return
        computes = time.is_all and time.computes >= MAJORITY
        kind, shares = (
            (CulpritKind.OPERATOR, time.shares(time.activity.operators, time.computing))
            if computes
            else _innermost(time)
        )
        longest = [each for each in shares if each[1] >= MIN_NAMED * analysis.window_ns][:MAX_NAMED]
        unknown: Words = "Whether a GPU worked meanwhile."
        if untimed := trace.quality.gpu_work_without_times:
            headline, advice = Headline(without_times(untimed)), _RECORD_WITH_TIMES
            unknown = "When the GPU worked, and for how long."
        elif computes and (count := _too_few_operators(analysis, time)):
            ran = f"{count} operator{'s' if count != 1 else ''} in {duration(analysis.window_ns)}"
            headline, advice = Headline("Too little was recorded to judge", ran), _RECORD_MORE
            unknown = "What a longer run spends its time in."
        elif longest and waits_for_a_process(_name(trace, longest[0][0])):
            amount = _largest(trace, longest, analysis)
            headline, advice = Headline("The program waits for other processes", amount), _ASK_OTHERS
            unknown = "What the other processes do meanwhile."
        elif computes:
            headline, advice = _of_operators(analysis, time, longest)
            if Attribute.INPUT_DIMS not in trace.attributes:
                unknown = _WITHOUT_SHAPES
        elif time.starts_gpu_work:
            headline = Headline(
                "The GPU's records are missing, only the CPU's are here"
                if completeness_of(trace).launches
                else "A GPU worked, and only the CPU was recorded",
                _largest(trace, longest, analysis),
            )
            advice = _RECORD_WHAT_IT_STARTED
            unknown = "What the GPU ran, and for how long."
        else:
            between, at_once, _ = _silence(time.activity, time.window)
            silent = f"{percent(between)} between operators" + (
                ", most of it in one stretch" if at_once else ""
            )
            amount = _largest(trace, longest, analysis)
            headline = Headline(
                "No GPU activity was recorded, only the CPU's",
                silent if not amount and between >= MAJORITY else amount,
            )
            loads = bool(longest) and is_loader(_name(trace, longest[0][0]))
            advice = _RECORD_THE_GPU.after(_LOAD_BESIDE) if loads else _RECORD_THE_GPU
            if headline.amount == silent and not at_once:
                advice = advice.after(OUTSIDE_OPERATORS.advice[0])
            if time.busy_ns < MIN_BUSY * time.window_ns:
                advice = advice.after(_GPU_TOO)
        yield self.finding(
            analysis,
            headline=headline,
            account=_account(trace, longest, time.busy_ns, analysis.window_ns)
            + _of_the_others(time, kind)
            + _of_calls(time)
            + (_of_a_first_call(time, longest) if kind is CulpritKind.OPERATOR else "")
            + (_of_products(time) if computes else "")
            + _of_own_lines(analysis, time)
            + _silence(time.activity, time.window)[-1]
            + _of_the_profiler(analysis, time),
            remedy=advice,
            culprit=Culprit(kind, _name(trace, longest[0][0])) if longest else NOBODY,
            evidence=tuple(_place(trace, event) for event, _ in longest),
            unknown=(unknown,),
        )

    def _of_rows(self, analysis: Analysis) -> Finding:
        """Of operators that ran at once, in rows that are no threads: what takes most of their time."""
        trace = analysis.trace
        operators = trace.events.of_kind(EventKind.CPU_OP)
        took = trace.events.duration[operators]
        spans = union(trace.events.start[operators], trace.events.end[operators])
        by_name = np.bincount(trace.events.name[operators], took)
        longest = np.argsort(-by_name, kind="stable")[:MAX_NAMED]
        whole = max(float(took.sum()), 1.0)
        told = [
            f"{percent(by_name[each] / whole)} in {quoted(trace.strings[each])} ({duration(by_name[each])})"
            for each in longest.tolist()
            if by_name[each] >= MIN_NAMED * whole
        ]
        most = f"{percent(by_name[longest[0]] / whole)} of its operators' time in {trace.strings[longest[0]]}"
        started = trace.quality.operators_of_an_unrecorded_gpu
        return self.finding(
            analysis,
            headline=Headline(
                "A GPU worked, and only the CPU was recorded"
                if started
                else "No GPU activity was recorded, only the CPU's",
                most,
            ),
            account=(
                f"Operators took {duration(took.sum())} in all, some of them at once, within "
                f"{duration(length(spans))}: {', '.join(told) or 'none of them much'}."
            ),
            remedy=_RECORD_WHAT_IT_STARTED if started else _RECORD_THE_GPU,
            culprit=Culprit(CulpritKind.OPERATOR, trace.strings[longest[0]]),
            unknown=(
                "What the GPU ran, and for how long." if started else "Whether a GPU worked meanwhile.",
            ),
        )


def _too_few_operators(analysis: Analysis, time: CpuTime) -> int:
    """How many operators ran, where they are too few and too short to judge by; 0 otherwise."""
    count = int(np.count_nonzero(time.activity.kind == EventKind.CPU_OP))
    return count if count < FEW_OPERATORS and analysis.window_ns < SHORT_NS else 0


def _innermost(time: CpuTime) -> tuple[CulpritKind, Shares]:
    """What the thread was in, longest first."""
    activity = time.activity
    columns = (
        (CulpritKind.REGION, activity.regions),
        (CulpritKind.FRAME, activity.functions),
        (CulpritKind.OPERATOR, activity.operators),
    )
    found = [(kind, time.shares(column)) for kind, column in columns]
    found = [(kind, shares) for kind, shares in found if shares] or [(CulpritKind.OPERATOR, [])]
    telling = [each for each in found if each[1] and each[1][0][1] < NEARLY_ALL * time.window_ns]
    first, last = (telling or found)[0], (telling or found)[-1]
    if first[0] is CulpritKind.REGION and last[0] is CulpritKind.OPERATOR and last[1][0][1] > first[1][0][1]:
        return last
    return first


def _account(trace: Trace, named: Shares, busy_ns: int, window_ns: int) -> str:
    where = listed(
        [
            f"{percent(ns / window_ns)} in {quoted(_name(trace, event))} ({duration(ns)})"
            for event, ns in named
        ]
    )
    if not where:
        return f"Its busiest thread works {percent(min(busy_ns / window_ns, 1.0))} of the time."
    return f"Its busiest thread spends {where}."


def _of_operators(analysis: Analysis, time: CpuTime, longest: Shares) -> tuple[Headline, Remedy]:
    """What is said where operators hold most of the time."""
    part = of_every_step(analysis, time.computes)
    most = _largest(time.trace, longest, analysis)
    products = products_of(time)
    usual = LARGE_OPERATORS if "PyTorch" in software_of(time.trace) else ALL_CORES
    alone = [_name(time.trace, event) for event, ns in longest[:1] if ns >= MAJORITY * analysis.window_ns]
    own = by_name(Culprit(CulpritKind.OPERATOR, alone[0])) if alone else None
    if any(map(FALLBACK_CONVOLUTION.match, alone)):
        own = FAST_CONVOLUTION
    advice = (own or usual).and_then(*_RECORD_THE_GPU.advice)
    if products.in_double:
        advice = advice.after(SINGLE_PRECISION)
    if _are_held_up(products):
        advice = advice.after(FEWER_THREADS)
    names = [_name(time.trace, event) for event, _ in longest]
    if "aten::sort" in names and Attribute.INPUT_DIMS not in time.trace.attributes:
        advice = advice.after(*PICK_WITHOUT_SORTING.advice)
    return Headline("The CPU's operators are the limit", f"{part}{', ' if most else ''}{most}"), advice


def _of_products(time: CpuTime) -> str:
    """How fast the CPU multiplies matrices, in a sentence; empty without shapes."""
    products = products_of(time)
    if products.ns < MIN_NAMED * time.window_ns:
        return ""
    rate = products.per_second / 1e9
    return (
        f" {products.calls:,} matrix products take {duration(products.ns / products.calls)} each on average, at "
        f"{three_digits(rate)} GFLOP/s."
    )


def _of_a_first_call(time: CpuTime, longest: Shares) -> str:
    """That an operator's first call takes nearly all the time of its calls, a sentence; empty where none does."""
    trace = time.trace
    operators = time.activity.of_kind(EventKind.CPU_OP)
    for event, _ in longest:
        calls = operators[trace.events.name[operators] == trace.events.name[event]]
        took = trace.events.duration[calls]
        first = int(np.argmin(trace.events.start[calls])) if len(calls) else 0
        alone, others = (int(took[first]), int(took.sum() - took[first])) if len(calls) else (0, 0)
        if (
            len(calls) > MANY_CALLS
            and alone >= NEARLY_ALL * (alone + others)
            and alone >= MIN_SILENCE * time.window_ns
        ):
            return (
                f" The first of {len(calls):,} calls of {_name(trace, event)} takes {duration(alone)}, all others "
                f"together {duration(others)}: it probably starts something, a GPU for example, and does not come "
                "again."
            )
    return ""


def _are_held_up(products: Products) -> bool:
    """Whether products take long although they have hardly anything to compute."""
    took = products.ns / max(products.calls, 1)
    return took >= LONG_PRODUCT_NS and products.per_second < MIN_OF_A_CORE


def _largest(trace: Trace, named: Shares, analysis: Analysis) -> str:
    """ "62 % in aten::addmm": what the busiest thread is in longest; empty where that is little."""
    if not named or named[0][1] < MIN_SILENCE * analysis.window_ns:
        return ""
    event, ns = named[0]
    name = _name(trace, event)
    where = "the data loader" if is_loader(name) else quoted(shortened(name, MAX_NAME_LENGTH))
    return f"{percent(ns / analysis.window_ns)} in {where}"


def _of_the_others(time: CpuTime, kind: CulpritKind) -> str:
    """Which operators take the time beside regions or frames, or which regions beside operators; may be empty."""
    of_operators = kind is not CulpritKind.OPERATOR
    column = time.activity.operators if of_operators else time.activity.regions
    told = named_shares(time.trace, time.shares(column), time.window_ns)
    what = "Its longest operators are" if of_operators else "Its regions are"
    return f" {what} {told}." if told else ""


def _of_calls(time: CpuTime) -> str:
    """Which calls to the driver take the time, in a sentence; empty without any that matter."""
    told = named_shares(time.trace, time.shares(time.activity.calls), time.window_ns)
    return f" Calls to the driver are part of this: {told}." if told else ""


def _of_own_lines(analysis: Analysis, time: CpuTime) -> str:
    """Which functions of the user's own code hold the time, what they called included; a sentence, or empty."""
    told = named_shares(time.trace, own_lines(time), time.window_ns)
    return f" In the program's own code: {told}." if told else ""


def _silence(activity: ThreadActivity, window: tuple[int, int]) -> tuple[float, bool, str]:
    """In how much of the time the thread runs nothing that was recorded, whether mostly at once, and a sentence on it.

    It is 0 where that is little, and where other threads run operators meanwhile: the thread then waits for them.
    """
    trace = activity.trace
    kinds = np.isin(
        trace.events.kind[activity.events], (EventKind.CPU_OP, EventKind.PYTHON, EventKind.REGION)
    )
    events = activity.events[kinds]
    start, end = trace.events.spans(events)
    telling = end - start < NEARLY_ALL * (window[1] - window[0])
    silent = complement(union(start[telling], end[telling]), *window)
    whole = length(silent)
    share = whole / (window[1] - window[0])
    if not telling.any() or not MIN_SILENCE <= share < NEARLY_ALL:
        return 0.0, False, ""
    longest = int((silent[1] - silent[0]).argmax())
    took = int(silent[1][longest] - silent[0][longest])
    after = events[telling][start[telling] == silent[1][longest]]
    text = f" In {percent(share)} of the time it runs nothing that was recorded"
    operators = trace.events.of_kind(EventKind.CPU_OP)
    elsewhere = union(*trace.events.spans(operators))
    if length(subtract(silent, elsewhere)) < MAJORITY * whole:
        return 0.0, False, f"{text}, mostly while other threads run operators."
    at_once = bool(took >= MAJORITY * whole and len(after))
    where = f": {duration(took)} of it before {_name(trace, int(after[0]))}" if at_once else ""
    return (share if len(operators) else 0.0), at_once, f"{text}{where}."


def _of_the_profiler(analysis: Analysis, time: CpuTime) -> str:
    """What other findings leave out, where that is enough to matter: these times are as recorded."""
    if time.recorder_share < MIN_PROFILER:
        return ""
    steps, part = analysis.steps_in_window, time.recorder_share
    whole = f"a recorded step of {duration(analysis.window_ns / steps)}" if steps else "the recorded time"
    taken = duration(part * analysis.window_ns / max(steps, 1))
    return f" The profiler takes {taken} ({percent(part)}) of {whole}; other findings tell it without that."


def _name(trace: Trace, event: int) -> str:
    return trace.strings[int(trace.events.name[event])]


def _place(trace: Trace, event: int) -> Evidence:
    table = trace.events
    return Evidence(
        int(table.lane[event]), int(table.start[event]), int(table.end[event]), _name(trace, event), event
    )
