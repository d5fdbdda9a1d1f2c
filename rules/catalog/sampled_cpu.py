"""Samples of the CPU's stacks: in which of the user's own functions its time goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from parsers.model.late import regex
from parsers.model.names.source_files import KERNEL, is_address
from parsers.model.quality import MIN_SAMPLES
from parsers.model.units import capital, duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.sampled_stacks import OwnFrame, OwnTime, own_time
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import KERNEL_SYMBOLS
from rules.terms import MAJORITY, NOBODY, Culprit, CulpritKind, SourceLine
from rules.wording.words import Headline, listed, short_place, shortened

MAX_NAMED = 3
MIN_NAMED = 0.05  # of the sampled time
MIN_NAMED_OF_MANY = 0.01  # of it, where no function has as much as that
MIN_SPINNING = 0.25  # of the sampled time: threads that wait without sleeping take that much of the cores
MIN_IMPORTING = 0.25  # of the sampled time
LITTLE = 0.1  # of the sampled time: what takes less is no headline where most is of others
MAX_NAME_LENGTH = 40  # characters in a title
MAX_FUNCTION = 80  # in an account: longer ones are told without what they are of and for
MAX_BELOW = 24  # of what a script calls, and of the script
_WITHOUT_TYPES = regex(r"(?:\(anonymous namespace\)|operator\(\)|[^(<])+")
_WITH_SYMBOLS = (
    "Build with symbols (-g, in Rust debug = true) and record again: functions then have names. Of samply, save the "
    "profile from the viewer that samply load opens, which looks them up."
)
_FEWER_THREADS = (
    "Use fewer threads: OMP_NUM_THREADS or OPENBLAS_NUM_THREADS, above all where one pool of threads calls a library "
    "with another."
)
_WITHOUT_START = (
    "Record the program's work without its start (py-spy record --pid), or see which modules take it: "
    "python -X importtime."
)
_MORE_SAMPLES = "Record for longer, or more often: perf record -F 999 -g, py-spy record --rate 500."
_OTHER_PROCESSES = "Record the processes it waits for, too: py-spy record --subprocesses."
_CODE = """# py-spy record --threads --format speedscope --output cpu.json -- python train.py
# perf record -F 99 -g python -X perf train.py && perf script > cpu.txt     # with what libraries do"""


@rule
class SampledCpu(Rule):
    id = "sampled-cpu"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.SAMPLED_STACKS})
    explanation = f"""
What it found
    A CPU profiler sampled call stacks, which show where your own functions spend the time.

Why it costs time
    It may cost nothing. If a GPU waits for the CPU, this is the code it waits for.

How it decides
    Each moment of each thread is assigned to the deepest stack frame that does not belong to Python, an installed
    package or the system; lines of one function are added up. Functions with at least {percent(MIN_NAMED)} of the
    sampled time of all threads are named, along with what runs below them most of the time. Time without any such
    frame is told by the innermost function. Where most of the own time, or of all time without own functions, has
    addresses instead of functions, the binary is named. A library's function that takes longer than any own
    function, called by several of them, is named instead. Importing modules is told first where it takes
    {percent(MIN_IMPORTING)} of the time and longer than any function of the program's own; functions that modules
    call while they are imported are no part of it. Python's functions that wait for threads and processes are told
    as waiting where an own function spends at least {percent(MAJORITY)} of the time so; threads that only wait,
    without own functions, are left out of that. Threads that give their core away again and again (sched_yield) are
    told where they take {percent(MIN_SPINNING)}. Of fewer than {MIN_SAMPLES} samples, only that is said.

What to try
    Make the named lines do less, or move them to other processes. *Flame* shows the stacks as a whole.

When it is wrong
    Profilers leave out waiting threads unless told to include them (py-spy --idle). Shortened file names may make
    your own module look like one of Python's.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = own_time(analysis.trace)
        if not time.sampled_ns:
            return
        named = _longest(time, time.frames)
        yield self.finding(
            analysis,
            headline=_headline(time, named),
            account=_account(time, named),
            remedy=remedy(
                *([_WITH_SYMBOLS] if _without_symbols(time) else []),
                *([_FEWER_THREADS] if _is_spinning(time) else []),
                *([_WITHOUT_START] if _is_importing(time) else []),
                *([KERNEL_SYMBOLS] if _is_in_kernel(_shared(time, named)) else []),
                *([_MORE_SAMPLES] if time.few else []),
                *([_OTHER_PROCESSES] if _waiting(time, named) else []),
                "See Flame for the full stacks and what the named lines call.",
                "If the GPU waits for this code, make it do less, or move it to other processes.",
                code=_CODE,
            ),
            culprit=Culprit(CulpritKind.FRAME, _place(named[0]), at=_line(named[0]))
            if named and not time.few
            else NOBODY,
            evidence=evidence_of(
                analysis.trace,
                np.array(
                    [each.longest for each in _told_of(time, named) or _longest(time, time.foreign)], np.int64
                ),
            ),
            unknown=("Whether a GPU waited meanwhile: record it too, with torch.profiler or nsys.",),
        )


def _longest(time: OwnTime, frames: tuple[OwnFrame, ...]) -> list[OwnFrame]:
    return [each for each in frames if each.ns >= MIN_NAMED * time.sampled_ns][:MAX_NAMED]


def _without_symbols(time: OwnTime) -> list[tuple[str, int]]:
    """Binaries that are told by addresses alone, with their time in ns, the longest first; none where that is little.

    One of the program's own; or, where most time is in none of its functions (Python, without its lines), any that ran.
    """
    is_foreign = _is_foreign(time)
    addresses: Counter[str] = Counter()
    for each in time.foreign if is_foreign else time.frames:
        if each.file and is_address(each.function):
            addresses[each.file] += each.ns
    longest = max(addresses.values(), default=0)
    if is_foreign and any(each.ns > longest for each in time.frames):
        return []
    enough = addresses.total() if is_foreign else longest
    return addresses.most_common(MAX_NAMED) if enough >= MAJORITY * time.sampled_ns else []


def _is_foreign(time: OwnTime) -> bool:
    return time.foreign_ns >= MAJORITY * time.sampled_ns


def _is_spinning(time: OwnTime) -> bool:
    return time.spinning_ns >= MIN_SPINNING * time.sampled_ns


def _waiting(time: OwnTime, named: list[OwnFrame]) -> float:
    """The share of the time in which the longest own function waits for others; 0 where it does not mostly do so."""
    if not named or not named[0].waits:
        return 0.0
    share = named[0].ns / time.without_helpers_ns
    return share if share >= MAJORITY else 0.0


def _shared(time: OwnTime, named: list[OwnFrame]) -> OwnFrame | None:
    """A library's function that takes longer than the longest own function, as several of these call it."""
    first = next(iter(time.libraries), None)
    return first if first is not None and named and first.ns > named[0].ns else None


def _is_importing(time: OwnTime) -> bool:
    """Whether importing modules takes much of the time, and more than any function of the program's own."""
    functions = [each.ns for each in time.frames if each.function != "<module>"]
    return time.importing_ns >= max(MIN_IMPORTING * time.sampled_ns, *functions[:1], 1)


def _is_in_kernel(shared: OwnFrame | None) -> bool:
    return shared is not None and shared.function == KERNEL


def _headline(time: OwnTime, named: list[OwnFrame]) -> Headline:
    whose = "the operators'" if time.of_operators else "the CPU's"
    if time.few:
        taken = "1 sample was" if time.few == 1 else f"{time.few} samples were"
        return Headline(f"Only {taken} taken, too few to tell where {whose} time goes")
    if _is_spinning(time):
        share = percent(time.spinning_ns / time.sampled_ns)
        return Headline(f"{share} of {whose} time is threads that spin while they wait for work")
    if waiting := _waiting(time, named):
        return Headline("The program waits for other threads or processes", f"{percent(waiting)} of the time")
    if _is_importing(time):
        share = percent(time.importing_ns / time.sampled_ns)
        return Headline(f"{share} of {whose} time is in importing modules")
    if (shared := _shared(time, named)) is not None:
        name, share = shortened(shared.function, MAX_BELOW), percent(shared.ns / time.sampled_ns)
        return Headline(f"{share} of {whose} time is in {name}, called from several places")
    if nameless := _without_symbols(time):
        binary, ns = nameless[0]
        name = shortened(short_place(binary), MAX_NAME_LENGTH)
        return Headline(
            f"{percent(ns / time.sampled_ns)} of {whose} time is in {name}, whose functions have no names"
        )
    if not named and not _is_foreign(time):
        return Headline(f"{capital(whose)} time is spread over many of the program's functions")
    if not named:
        most = next(iter(_longest(time, time.foreign)), None)
        amount = (
            f"{percent(most.ns / time.sampled_ns)} in {shortened(_place(most), MAX_NAME_LENGTH)}"
            if most
            else ""
        )
        return Headline(f"{capital(whose)} time is not spent in any of the program's own functions", amount)
    if _is_foreign(time) and named[0].ns < LITTLE * time.sampled_ns:
        return Headline(
            f"{percent(time.foreign_ns / time.sampled_ns)} of {whose} time is in none of the program's own functions"
        )
    place = _place(named[0])
    if len(place) > MAX_NAME_LENGTH:
        place = shortened(_without_types(named[0].function), MAX_NAME_LENGTH)
    if named[0].function == "<module>" and named[0].below_ns >= MAJORITY * named[0].ns:
        place = (
            f"{shortened(named[0].below, MAX_BELOW)}, called from {shortened(_script(named[0]), MAX_BELOW)}"
        )
    return Headline(
        f"{percent(named[0].ns / time.sampled_ns)} of {whose} time is in {place}", names_culprit=True
    )


def _told_of(time: OwnTime, named: list[OwnFrame]) -> list[OwnFrame]:
    """The own functions that are told: those with much time, else the longest of those that have some."""
    return (
        named or [each for each in time.frames if each.ns >= MIN_NAMED_OF_MANY * time.sampled_ns][:MAX_NAMED]
    )


def _account(time: OwnTime, named: list[OwnFrame]) -> str:
    if time.of_operators:
        text = f"PyTorch's operators take {duration(time.sampled_ns)}"
    elif not time.timed:
        text = "Samples of all threads, without times"
    elif _waiting(time, named):
        text = f"Samples of all threads cover {duration(time.sampled_ns)}"
    else:
        text = f"Samples show threads at work for {duration(time.sampled_ns)}"
    if told := _told_of(time, named):
        text += f": {listed([_told(time, each) for each in told])}"
    if _is_importing(time):
        text += f". {percent(time.importing_ns / time.sampled_ns)} is in importing modules"
    elif (shared := _shared(time, named)) is not None:
        where = KERNEL if _is_in_kernel(shared) else _place(shared)
        text += f". {percent(shared.ns / time.sampled_ns)} is in {where}, called from several of them"
    if _is_spinning(time):
        text += (
            f". {_amount(time, time.spinning_ns)} threads gave their core away again and again (sched_yield)"
        )
    nameless = _without_symbols(time)
    if nameless and _is_foreign(time):
        shares = [f"{percent(ns / time.sampled_ns)} in {short_place(binary)}" for binary, ns in nameless]
        text += f": {listed(shares)}"
    if nameless:
        text += ". An address is one place in a function, which may have several"
    foreign = time.foreign_ns / time.sampled_ns
    if foreign >= MIN_NAMED:
        text += f". {percent(foreign)} is not in any of the program's own functions"
        if longest := _longest(time, time.foreign):
            text += f": {listed([_told(time, each) for each in longest])}"
    return f"{text}."


def _amount(time: OwnTime, ns: int) -> str:
    return f"For {duration(ns)}" if time.timed else f"In {percent(ns / time.sampled_ns)} of them"


def _told(time: OwnTime, each: OwnFrame) -> str:
    below = f", mostly in {shortened(each.below, 60)}" if each.below_ns >= MAJORITY * each.ns else ""
    function = each.function if len(each.function) <= MAX_FUNCTION else _without_types(each.function)
    return f"{percent(each.ns / time.sampled_ns)} in {_place(replace(each, function=function))}{below}"


def _place(each: OwnFrame) -> str:
    """ "load (data.py:12)"."""
    if not each.file:
        return each.function
    return f"{each.function} ({short_place(each.file)}{f':{each.line}' if each.line else ''})"


def _without_types(function: str) -> str:
    """A function of C++ without its parameters, which may be long."""
    found = _WITHOUT_TYPES.match(function)
    return found[0] if found else function


def _script(each: OwnFrame) -> str:
    return f"{short_place(each.file)}{f':{each.line}' if each.line else ''}" if each.file else each.function


def _line(each: OwnFrame) -> SourceLine | None:
    return SourceLine(each.file, each.line, each.function) if each.file and each.line else None
