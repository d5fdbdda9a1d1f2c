"""Tables that a profiler printed: what takes the GPU's and the CPU's time."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import Trace
from parsers.model.late import regex
from parsers.model.names.kernels import distinct_names, kernel_name
from parsers.model.names.source_files import KERNEL, frame_parts
from parsers.model.results import TimeOf
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.beside.printed_totals import (
    CODE,
    LINE,
    LOADER,
    NEXT_BATCH,
    Awaited,
    OwnCode,
    Spent,
    Total,
    holding,
    holding_on_gpu,
    importing,
    loading,
    loading_in_python,
    own_code,
    printed_totals,
)
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.remedies.cpu_work import KERNEL_SYMBOLS
from rules.terms import MAJORITY, NEARLY_ALL, Culprit, CulpritKind, SourceLine
from rules.wording.printed_tables import at_barriers, others_like_it
from rules.wording.words import Headline, Words, listed, ours, short_place, shortened

MAX_NAMED = 3
MIN_NAMED = 0.05  # of the time
MIN_LEADING = 0.2  # of the CPU's time: where no operator has as much, it is told beside the GPU's instead
MAX_NAME = 40  # characters
MAX_FIRST_CALLS = 2  # of a kind: a call that is made once or twice in a run belongs to its start or its end
_LOADS = regex(
    r"waiting for data$|dataloader_next|val_next|get_train_batch|fetch_next_train_batch|DataLoader\w*\.__next__"
    r"|_next_data\b|\bdataloader\.py:|enumerate\(DataLoader\)"
)
# of a step: such a range's own time is Python between operators, or the wait for the thread of the backward pass
_PHASE = regex(
    r"(?i)(?:[a-z]+[_. ])*"
    r"(?:forward|backward|(?:profiler)?step|iter(?:ation)?|train(?:ing)?|infer(?:ence)?|epoch|batch|model|eval|loss)"
    r"(?:[_. #*]\w*)*$"
)
_COPIES = regex(r"(?i:memcpy)|MemoryCopy|Copy(?:Device|Host)To")
_FILLS = regex(r"(?i:memset)|FillBuffer")
_LOADS_CODE = regex(r"(?:cu|hip)(?:Module|Library)Load")
_STARTS = regex(
    r"(?:cuda|hip)(?:Malloc(?:Managed)?|Free|SetDevice|StreamCreate|EventCreate)(?:_v\d+)?(?:WithFlags)?$"
)
_MOVES_TO_GPU = regex(r"\.to\(|\.cuda\(|[\"']cuda|torch\.cuda\.|device_put\(")
_STARTS_THE_GPU = (
    "It runs once, and the first work on the GPU also starts it: it matters less, the longer the program runs. "
    'Touch the GPU once before the code that is measured (torch.zeros(1, device="cuda")).'
)
_ADDRESS = regex(r"0x[0-9a-f]+$")  # of code without a name: nobody can look it up
_WITH_FILE = regex(r"(.+) \((.+):(\d+)\)")
_OF_WAITS = {
    Awaited.OTHERS: "Profile the threads and processes that it waits for as well: py-spy record --subprocesses.",
    Awaited.TIME: "Wait for what is to happen, instead of sleeping.",
    Awaited.NETWORK: "Ask for more at once, or fetch in a thread beside the work.",
    Awaited.USER: "Profile the program without its window or prompt: it waits for its user.",
}
_READ_LATER = (
    "Reading a value back returns when the GPU is done, so this is its time: make its work faster, and read values "
    "less often, so that the CPU can launch ahead."
)
_MOVE_LATER = (
    "Moving a tensor for this long waits for the GPU's work before it, or copies from memory that is not pinned: read "
    "results less often, and send data from pinned memory with non_blocking=True."
)
_WHOSE = {
    TimeOf.GPU: "the GPU's time",
    TimeOf.CPU: "the CPU's time",
    TimeOf.CALLS: "the time of GPU API calls",
    TimeOf.PROGRAM: "the program's time",
}
_OF_COPIES = "the time of copies"
_CULPRITS = {
    TimeOf.GPU: CulpritKind.KERNEL,
    TimeOf.CPU: CulpritKind.OPERATOR,
    TimeOf.CALLS: CulpritKind.CALL,
    TimeOf.PROGRAM: CulpritKind.FRAME,
}


@rule
class PrintedTimes(Rule):
    id = "printed-times"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.PRINTED_TIMES})
    explanation = f"""
What it found
    A profiler printed how long each kernel, copy, call, operator or function took in all.

Why it costs time
    It may cost nothing. What takes most of the time is what is worth making faster.

How it decides
    Rows are compared by their own time, without what they call. The GPU's time is reported first, unless the CPU's own
    work takes longer: calls that only wait for the GPU are left out of that. Rows with at least
    {percent(MIN_NAMED)} of the time are named. Where only the first rows were printed, the printed shares tell how
    much is missing: of rows that hold less than {percent(MAJORITY)} and no large one, that is said instead. So is
    importing modules, where it takes {percent(MAJORITY)} of what Python's profiler saw. Where the CPU's own work
    takes longer than the GPU's and no operator has {percent(MIN_LEADING)} of it, both are told. Where the rows hold
    less than {percent(MAJORITY)} of the CPU's time and the GPU works for at least {percent(MAJORITY)} of it, the rest
    may be the CPU's wait for the GPU, and the GPU's time is reported. Functions of Python
    that wait for locks, processes, the network or for time to pass are called waits, and those that wait for the
    program's user are left out. Where no function of Python has
    {percent(MIN_LEADING)} of the time itself, the innermost one that has {percent(MAJORITY)} with its calls is told; so
    is an operator, where the rows hold less than {percent(MAJORITY)} of the GPU's time and none {percent(MIN_LEADING)}.
    Where a saved profile tells who called whom, the time of Python and of libraries is the program's own function's
    that called them, and the one with at least {percent(MIN_LEADING)} of it is told first.
    PyTorch's DataLoader is told with what it calls, where that is {percent(MIN_LEADING)} of the CPU's time and as much
    as any operator's own. Ranges named after a phase of a step, such as a backward pass, are not told for an operator.
    A table that states the same rows again, grouped by shapes, counts once. Barrier packets, which rocprof lists among
    kernels, are waits of a queue and count as no work.

What to try
    Make the longest row faster, or call it less often. A timeline tells what a table cannot: gaps and waiting.

When it is wrong
    A table adds up everything from the start of the program: starting the GPU, compiling and the first calls of every
    kind are part of it. Several threads together can take more time than has passed. A module that does its work while
    it is imported counts as imported.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        spent = printed_totals(analysis.trace)
        if not spent:
            return
        main = _main(spent)
        if not main.rows:
            return
        first = _first(main, spent)
        imports = importing(analysis.trace) if main.of is TimeOf.PROGRAM else 0.0
        around = _around(analysis.trace, main, first)
        loads = any(NEXT_BATCH.match(each.name) for each in around)
        own = () if loads else _own(analysis.trace, main, first)
        yield self.finding(
            analysis,
            headline=Headline(
                _headline(main, first, spent, imports, around, own), names_culprit=imports < MAJORITY
            ),
            account=" ".join(
                [
                    *(_account(each) for each in (main, *(each for each in spent if each is not main))),
                    *_what_may_wait(main, spent),
                    *_of_user(main),
                    *(_with_libraries(own) if own else _with_what_it_calls(around)),
                    *at_barriers(spent),
                    *others_like_it(spent),
                ]
            ),
            remedy=remedy(
                *_advice(
                    main,
                    first,
                    imports,
                    around,
                    _code(analysis.trace, first) if main.by_line else "",
                    has_gpu=any(each.of is TimeOf.GPU for each in spent),
                ),
                ours("Record a timeline as well ($RecordATimeline), to see what waits for what."),
            ),
            culprit=_culprit(main, first, around, own),
            unknown=("Whether the GPU was idle meanwhile: this requires a timeline.",),
        )


def _main(spent: tuple[Spent, ...]) -> Spent:
    """The GPU's, unless the work of the CPU alone takes longer."""
    gpu = next((each for each in spent if each.of is TimeOf.GPU), None)
    host = max((each for each in spent if each is not gpu), key=lambda each: each.working_ns, default=None)
    if gpu is None or (host is not None and host.working_ns > gpu.ns and not _may_wait(host, gpu)):
        return host or spent[0]
    return gpu


def _may_wait(host: Spent, gpu: Spent) -> bool:
    """Whether the wait for the GPU, which works most of the time, is as likely as not in rows that were not printed."""
    hidden = host.printed < MAJORITY and host.printed_work_ns <= gpu.ns
    return hidden and host.of is TimeOf.CPU and host.timed and gpu.timed and gpu.ns >= MAJORITY * host.ns


def _first(main: Spent, spent: tuple[Spent, ...]) -> Total:
    """The longest row that has a name and does not wait, where there is one.

    What is waited for is told by the GPU's own time. Of the CPU's operators beside a GPU's also one that is no phase
    of a step, which holds operators.
    """
    if main.of is TimeOf.CALLS and len(spent) == 1:
        return main.rows[0]
    working = [row for row in main.rows if not row.waits and row.awaits is not Awaited.USER]
    if main.of is TimeOf.CPU and any(each.of is TimeOf.GPU for each in spent):
        working = [row for row in working if not _PHASE.match(row.name)] or working
    named = [row for row in working if not _ADDRESS.match(row.name)] or working
    return named[0] if named else main.rows[0]


def _around(trace: Trace, main: Spent, first: Total) -> tuple[Total, ...]:
    """What holds much of the time with what it calls, the innermost first, where no row has as much itself."""
    if main.of is TimeOf.GPU:
        hidden = main.printed < MAJORITY and first.share < MIN_LEADING
        return tuple(row for row in holding_on_gpu(trace) if not _PHASE.match(row.name)) if hidden else ()
    loader = {TimeOf.CPU: loading, TimeOf.PROGRAM: loading_in_python}.get(main.of, lambda _: None)(trace)
    if loader is None or loader.share < max(MIN_LEADING, first.share):
        holds = main.of is TimeOf.PROGRAM and first.share < MIN_LEADING and first.awaits is None
        return holding(trace) if holds else ()
    own = next((row.share for row in main.rows if row.name == loader.name), 0.0)
    return (loader,) if own < NEARLY_ALL * loader.share else ()


def _own(trace: Trace, main: Spent, first: Total) -> tuple[OwnCode, ...]:
    """The program's own functions, where one of them has much of its time and none of Python's waits for as much."""
    own = own_code(trace) if main.of is TimeOf.PROGRAM and first.awaits is None else ()
    return own if own and own[0].share >= MIN_LEADING else ()


def _culprit(main: Spent, first: Total, around: tuple[Total, ...], own: tuple[OwnCode, ...]) -> Culprit:
    if own:
        function, file, line = frame_parts(own[0].name)
        return Culprit(CulpritKind.FRAME, own[0].name, at=SourceLine(file, line, function))
    return Culprit(_CULPRITS[main.of], (around[0] if around else first).name, at=_line(main, first))


def _headline(
    main: Spent,
    first: Total,
    spent: tuple[Spent, ...],
    imports: float,
    around: tuple[Total, ...],
    own: tuple[OwnCode, ...],
) -> str:
    name = _in_title(first.name)
    if imports >= MAJORITY:
        return f"{percent(imports)} of the program's time is in importing modules"
    if own:
        return f"{percent(own[0].share)} of {_whose(main)} is in {_in_title(own[0].name)}{_mostly_in(own[0])}"
    if around:
        inner = _in_title(around[0].name)
        return f"{percent(around[0].share)} of {_whose(main)} is in {inner}, with what it calls"
    if _leaves_out(main, first):
        return f"The rows that were printed hold {percent(main.printed)} of {_whose(main)}"
    if main.of is TimeOf.PROGRAM and first.awaits is not None:
        alike = [row.share for row in main.rows if row.awaits is first.awaits and row.share >= MIN_NAMED]
        mostly = "mostly " if len(alike) > 1 else ""
        return f"The program waits for {percent(sum(alike))} of its time, {mostly}in {name}"
    gpu = next((each for each in spent if each.of is TimeOf.GPU), None)
    if _is_spread(main, first) and gpu is not None:
        return f"The CPU works for {duration(main.working_ns)}, the GPU for {duration(gpu.ns)}"
    if main.of is TimeOf.CALLS and first.is_one_call and _STARTS.match(first.name):
        rest = f"all of its work {duration(gpu.ns)}" if gpu else f"all GPU API calls {duration(main.ns)}"
        return f"Starting the GPU takes {duration(first.longest)}, {rest}"
    if main.of is TimeOf.CALLS and gpu is not None and first.ns > gpu.ns:
        return f"{name} takes {duration(first.ns)}, all of the GPU's work {duration(gpu.ns)}"
    forms = _forms_of(main, first)
    several = f", as {len(forms)} template instances" if len(forms) > 1 else ""
    return f"{percent(sum(row.share for row in forms))} of {_whose(main)} is in {name}{several}"


def _whose(main: Spent) -> str:
    return _OF_COPIES if _has_only_copies(main) else _WHOSE[main.of]


def _has_only_copies(spent: Spent) -> bool:
    """Whether a table of the GPU's time is one of copies, beside which kernels have a table of their own."""
    copies = [row for row in spent.rows if _COPIES.search(row.name)]
    moves = [row for row in spent.rows if row in copies or _FILLS.search(row.name)]
    return spent.of is TimeOf.GPU and bool(copies) and len(moves) == len(spent.rows)


def _forms_of(main: Spent, first: Total) -> list[Total]:
    """A row, and for a kernel the others that are made of the same function's template."""
    if not _is_kernel(first.name):
        return [first]
    own = kernel_name(first.name)
    return [row for row in main.rows if _is_kernel(row.name) and kernel_name(row.name) == own]


def _leaves_out(main: Spent, first: Total) -> bool:
    return first.share < MIN_NAMED and main.printed < MAJORITY


def _account(spent: Spent) -> str:
    named = [row for row in spent.rows if row.share >= MIN_NAMED][:MAX_NAMED] or list(spent.rows[:1])
    kernels = [row.name for row in named if _is_kernel(row.name)]
    apart = dict(zip(kernels, distinct_names(kernels), strict=True))
    told = listed([_told(row, spent.timed, apart.get(row.name, "")) for row in named])
    whose = {
        TimeOf.GPU: "The GPU worked for",
        TimeOf.CPU: "The CPU worked for",
        TimeOf.CALLS: "GPU API calls took",
        TimeOf.PROGRAM: "The program ran for",
    }[spent.of]
    if _has_only_copies(spent):
        whose = "The GPU copied for"
    return f"{whose} {duration(spent.ns)} in all: {told}." if spent.timed else f"Of its time: {told}."


def _with_what_it_calls(around: tuple[Total, ...]) -> list[str]:
    told = listed([_told(row, True) for row in around[:MAX_NAMED]])
    inside = ", each inside the next" if len(around) > 1 else ""
    return [f"With what {'they call' if inside else 'it calls'}{inside}: {told}."] if around else []


def _with_libraries(own: tuple[OwnCode, ...]) -> list[str]:
    told = [
        f"{percent(each.share)} in {shortened(_named(each.name), 60)}{_mostly_in(each)}"
        for each in own[:MAX_NAMED]
        if each.share >= MIN_NAMED
    ]
    return [f"By the program's own functions, with the libraries they call: {listed(told)}."] if told else []


def _mostly_in(own: OwnCode) -> str:
    below = frame_parts(own.below)[0]
    tells = below and not below.startswith("<") and below != frame_parts(own.name)[0]
    return f", mostly in {shortened(below, MAX_NAME)}" if tells and own.below_share >= MAJORITY else ""


def _what_may_wait(main: Spent, spent: tuple[Spent, ...]) -> list[str]:
    hosts = [
        each for each in spent if main.of is TimeOf.GPU and each.of is TimeOf.CPU and _may_wait(each, main)
    ]
    return [
        f"The rows that were printed hold {percent(host.printed)} of the CPU's time: in the others it may wait for the "
        "GPU."
        for host in hosts
    ]


def _of_user(main: Spent) -> list[str]:
    share = sum(row.share for row in main.rows if row.awaits is Awaited.USER)
    return [f"For {percent(share)} of it the program waits for its user."] if share >= MIN_NAMED else []


def _told(row: Total, timed: bool, name: str = "") -> str:
    calls = f", {row.calls:,.0f} calls" if row.calls > 1 else ", once" if row.calls == 1 else ""
    calls += f", {duration(row.longest)} of it in one" if row.is_one_call else ""
    time = f" ({duration(row.ns)}{calls})" if timed else ""
    return f"{percent(row.share)} in {shortened(name or _named(row.name), 60)}{time}"


def _in_title(name: str) -> str:
    """A long function without its file."""
    place, found = _named(name), _WITH_FILE.fullmatch(name)
    return shortened(found[1] if found and len(place) > MAX_NAME else place, MAX_NAME)


def _named(name: str) -> str:
    """Without the folders of a function's file, or a kernel's declaration; PyTorch's DataLoader by who loads."""
    if _is_kernel(name):
        return kernel_name(name)
    if NEXT_BATCH.match(name):
        return "the DataLoader"
    if LOADER.match(name):
        return "the DataLoader" if "SingleProcess" in name else "the wait for the DataLoader's workers"
    found = _WITH_FILE.fullmatch(name)
    return f"{found[1]} ({short_place(found[2])}:{found[3]})" if found else name


def _is_kernel(name: str) -> bool:
    """Whether this is how the compiler declares a kernel that it made of a template."""
    return name.startswith("void ")


def _line(main: Spent, first: Total) -> SourceLine | None:
    """Where a line stands that was measured itself; what is known of functions follows from their names."""
    found = _WITH_FILE.fullmatch(first.name) if main.by_line else None
    if found is None:
        return None
    function = found[1] if found[1].replace(".", "").isidentifier() else ""
    return SourceLine(found[2], int(found[3]), function)


def _code(trace: Trace, line: Total) -> str:
    """What stands in a line that was measured; empty where the profiler did not print it."""
    return next(
        (
            str(code)
            for table in trace.tables
            for name, code in zip(table.column(LINE), table.column(CODE), strict=False)
            if name == line.name
        ),
        "",
    )


def _is_spread(main: Spent, first: Total) -> bool:
    """Whether no operator of the CPU takes much of its time."""
    return main.of is TimeOf.CPU and first.share < MIN_LEADING


def _advice(
    main: Spent, first: Total, imports: float, around: tuple[Total, ...], code: str, *, has_gpu: bool
) -> list[Words]:
    if imports >= MAJORITY:
        return ["Profile the program's work without its start: enable the profiler behind the imports."]
    if _leaves_out(main, first) and not around:
        return ["Print all rows, or the first ones sorted by their own time."]
    if main.of is TimeOf.PROGRAM and first.awaits is not None and not around:
        return [_OF_WAITS[first.awaits]]
    if main.of is TimeOf.PROGRAM and first.reads_back:
        return [_READ_LATER]
    if main.of is TimeOf.PROGRAM and first.moves:
        return [_MOVE_LATER]
    if has_gpu and _is_spread(main, first):
        return [
            "Start fewer and larger operations: a larger batch, a compiled model (torch.compile), or CUDA graphs."
        ]
    if main.of in (TimeOf.CPU, TimeOf.PROGRAM) and any(_LOADS.search(row.name) for row in (first, *around)):
        return [
            "The program waits for data: let more workers load it, or make reading and preparing one sample cheaper."
        ]
    if main.of is TimeOf.CALLS and (first.is_one_call or 0 < first.calls <= MAX_FIRST_CALLS):
        called = (
            "One of its calls takes nearly all of it" if first.is_one_call else "It is called once or twice"
        )
        return [
            f"{called}, and the first call also starts the GPU: it matters less, the longer the program runs."
        ]
    if main.of is TimeOf.CALLS and _LOADS_CODE.match(first.name):
        return [
            "It loads the code of kernels, once for each module: it matters less, the longer the program runs."
        ]
    if main.of is TimeOf.CALLS and first.waits:
        return [
            "It returns when the GPU is done: ask for the GPU's own time as well, to see what it waits for."
        ]
    if main.of is TimeOf.CALLS:
        return ["Call it less often: allocate once and keep the memory, and launch more work at once."]
    if main.by_line and first.calls == 1 and _MOVES_TO_GPU.search(code):
        return [_STARTS_THE_GPU]
    if first.name == KERNEL:
        return [KERNEL_SYMBOLS]
    if main.of in (TimeOf.CPU, TimeOf.PROGRAM):
        return ["Make this faster, or call it less often."]
    if _COPIES.search(first.name):
        return [
            "Copy less: keep data on the GPU between kernels, and copy from pinned memory while they run."
        ]
    return [ours("Profile the longest kernel with $NsightCompute, to see what limits it.")]
