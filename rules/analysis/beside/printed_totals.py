"""What tables of a profiler add up: whose time goes where, without a timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from parsers.model import Trace, derived
from parsers.model.late import dataclass, regex
from parsers.model.names.kernels import BARRIER_PACKET
from parsers.model.results import OWN_CODE, Cell, ResultTable, TimeOf, Totals
from parsers.model.units import TIMES
from rules.terms import MAJORITY, NEARLY_ALL


class Awaited(Enum):
    """What a function of Python waits for."""

    OTHERS = 0  # threads or processes
    TIME = 1
    NETWORK = 2
    USER = 3  # of a window or a prompt


MIN_STATED = 2.0  # percent: of a smaller share, rounding hides too much to tell what all of it is
MIN_READ_BACK_NS = 1e6  # of a call: one that takes as long does not copy a value, but waits for it
SAME_SUM = 0.02  # of it: one table printed in two orders, or with fewer rows
WITH_CALLS = "With what it calls"
LINE, CODE = "Line", "Code"
LOADER = regex(r"enumerate\(DataLoader\)#")  # as torch.profiler names the next batch
NEXT_BATCH = regex(
    r"(?:__next__|_next_data) \(.*\btorch[/\\]utils[/\\]data[/\\]dataloader\.py:\d+\)$"
)  # and Python's
_IMPORTS = regex(r"_find_and_load \(<frozen importlib\._bootstrap>")
_WAITS = regex(
    r"(?:cuda|cu|hip)\w*Synchronize|(?:cuda|cu|hip)Memcpy\w*|(?:cuda|cu|hip)EventQuery|aten::item"
    r"|aten::_local_scalar_dense|ze\w+Synchronize|clFinish|clWaitForEvents"
)
_WAITS_IN_PYTHON = {
    Awaited.OTHERS: regex(
        r"(?:_thread\.)?(?:lock|RLock)\.acquire|posix\.wait|_winapi\.Wait|select\.|(?:poll|epoll|kqueue|select)\.\w+$"
        r"|(?:wait|acquire|join|_wait_for_tstate_lock) \(\S*\bthreading\.py:\d+\)$"
    ),
    Awaited.TIME: regex(r"time\.sleep"),
    Awaited.NETWORK: regex(r"_ssl\.|_socket\.|socket\."),
    Awaited.USER: regex(r"_tkinter\.tkapp\.(?:mainloop|wait_\w+)$|builtins\.input$|msvcrt\.getw?che?$"),
}
_EVENT_LOOP = regex(r"select\.")
_OF_NOTEBOOK = regex(r"[/\\]ipykernel(?:[/\\]|_\d)")
_READS_BACK = regex(
    r"torch\._C\._?TensorBase\.(?:item|cpu|tolist|nonzero|__\w+__)$|torch\._C\._cuda_synchronize$|cupy\S*\.ndarray\.get$"
)
_MOVES = regex(r"torch\._C\._?TensorBase\.(?:to|cuda|copy_)$")


@dataclass(frozen=True, slots=True)
class Total:
    """One row: its time in ns, its share of all such time, how often; 0 where calls, or the longest, are not stated."""

    name: str
    ns: float
    share: float
    calls: float
    longest: float = 0.0  # ns of its longest call
    in_notebook: bool = False  # whose event loop waits for the user to run the next cell

    @property
    def waits(self) -> bool:
        """Whether this is a call that returns when the GPU is done; copies of pageable memory are, too."""
        return _WAITS.match(self.name) is not None

    @property
    def awaits(self) -> Awaited | None:
        """What it waits for, where it is one of Python's functions that wait."""
        if self.in_notebook and _EVENT_LOOP.match(self.name):
            return Awaited.USER
        return next((each for each, names in _WAITS_IN_PYTHON.items() if names.match(self.name)), None)

    @property
    def reads_back(self) -> bool:
        """Whether this is one of Python's functions that return when the GPU is done, and waits for that."""
        return _READS_BACK.match(self.name) is not None and self._is_slow

    @property
    def moves(self) -> bool:
        """Whether it is one that moves tensors, so slowly that it waits for the GPU or copies much."""
        return _MOVES.match(self.name) is not None and self._is_slow

    @property
    def _is_slow(self) -> bool:
        return self.ns >= MIN_READ_BACK_NS * max(self.calls, 1.0)

    @property
    def is_one_call(self) -> bool:
        """Whether nearly all of its time is that of one call, as of the first one, which starts the GPU."""
        return self.calls > 1 and self.longest >= NEARLY_ALL * self.ns > 0


_Row = tuple[str, float, float, float, float]  # name, ns, percent, calls, ns of the longest call


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of the GPU, the CPU or the calls between them: all of it in ns, and its rows, the longest first.

    Where only shares were printed it is not ``timed``, and they stand in place of ns. ``by_line`` says that its rows
    are lines, not functions. ``stated``: the profiler printed what all of it is. ``tables`` counts those like it,
    itself included, where they add up to different times. ``barriers`` are a GPU's waits, which are no part of ``ns``.
    """

    of: TimeOf
    ns: float
    rows: tuple[Total, ...]
    timed: bool = True
    by_line: bool = False
    stated: bool = False
    tables: int = 1
    barriers: Total | None = None

    @property
    def printed(self) -> float:
        """The share that the rows hold."""
        return min(sum(row.share for row in self.rows), 1.0)

    @property
    def working_ns(self) -> float:
        """What of it does not wait for the GPU."""
        return self.ns - sum(row.ns for row in self.rows if row.waits)

    @property
    def printed_work_ns(self) -> float:
        """The part of ``working_ns`` that the rows hold; others, which were not printed, may wait."""
        return sum(row.ns for row in self.rows if not row.waits)


@derived
def printed_totals(trace: Trace) -> tuple[Spent, ...]:
    """The largest tables of each sort of time, by all of it and what was printed of it.

    Those with the same columns are of several runs, or of one in another order, and are not added.
    """
    found: dict[TimeOf, dict[tuple[str, ...], Spent]] = {}
    sums: defaultdict[tuple[TimeOf, tuple[str, ...]], list[float]] = defaultdict(list)
    for table in trace.tables:
        header = tuple(column.title for column in table.columns)
        for totals in table.totals:
            spent = _spent(table, totals)
            if spent and spent.timed:
                sums[totals.of, header].append(spent.ns)
            others = found.setdefault(totals.of, {})
            other = others.get(header)
            if spent and (other is None or (other.ns, other.printed) < (spent.ns, spent.printed)):
                others[header] = spent
    return tuple(
        replace(_joined(of, list(parts.values())), tables=max(_tables(sums[of, header]) for header in parts))
        for of, parts in found.items()
        if parts
    )


def _tables(sums: list[float]) -> int:
    """How many tables add up to these times; one where all add up to the same."""
    return len(sums) if sums and max(sums) > (1 + SAME_SUM) * min(sums) else 1


def importing(trace: Trace) -> float:
    """The share of a program's time that it imports modules, of what Python's profiler saw; 0 where it saw none.

    The time of a function with what it calls counts once, however deep the calls of it lie in one another.
    """
    for table in trace.tables:
        times = table.column(WITH_CALLS)
        for name, time in zip(table.column("Function"), times, strict=False):
            whole = table.totals[0].whole if table.totals else 0.0
            if whole and isinstance(time, float) and _IMPORTS.match(str(name)):
                return min(time / whole, 1.0)
    return 0.0


@derived
def holding(trace: Trace) -> tuple[Total, ...]:
    """Functions of Python in which most of the time passes with what they call, but not all of it, the innermost first.

    Their times are with what they call, and each is part of the next one.
    """
    for table in trace.tables:
        whole = table.totals[0].whole if table.totals else 0.0
        if whole and table.column("Function"):
            calls = table.column("Calls") or (0.0,) * len(table.rows)
            rows = zip(table.column("Function"), table.column(WITH_CALLS), calls, strict=False)
            found = [
                Total(str(name), time * _factor(table, table.totals[0]), time / whole, times)
                for name, time, times in rows
                if isinstance(time, float) and isinstance(times, float)
                if MAJORITY * whole <= time < NEARLY_ALL * whole
            ]
            return tuple(sorted(found, key=lambda row: row.ns))
    return ()


_ON_DEVICE = regex(r"(?!CPU )\w+ total$")  # a column of torch.profiler: "CUDA total", "XPU total"


@derived
def holding_on_gpu(trace: Trace) -> tuple[Total, ...]:
    """Operators that hold most of the GPU's time with what they call, but not all of it, the one with least first."""
    best: tuple[float, tuple[Total, ...]] = (0.0, ())
    for table in trace.tables:
        spent = next((_spent(table, each) for each in table.totals if each.of is TimeOf.GPU), None)
        column = next((each.name for each in table.columns if _ON_DEVICE.match(each.name)), "")
        if spent is None or not column or spent.ns <= best[0]:
            continue
        calls = table.column("# of Calls") or (0.0,) * len(table.rows)
        found = [
            Total(str(name), ns, ns / spent.ns, float(times))
            for name, ns, times in zip(table.column("Name"), _in_ns(table, column), calls, strict=False)
            if isinstance(times, float) and MAJORITY * spent.ns <= ns < NEARLY_ALL * spent.ns
        ]
        best = spent.ns, tuple(sorted(found, key=lambda row: row.ns))
    return best[1]


@derived
def loading_in_python(trace: Trace) -> Total | None:
    """PyTorch's DataLoader in a profile of Python, with what it calls; None where there is none."""
    found = [
        Total(str(name), time * _factor(table, table.totals[0]), time / table.totals[0].whole, float(calls))
        for table in trace.tables
        if table.totals and table.totals[0].whole
        for name, time, calls in zip(
            table.column("Function"),
            table.column(WITH_CALLS),
            table.column("Calls") or (0.0,) * len(table.rows),
            strict=False,
        )
        if isinstance(time, float) and isinstance(calls, float) and NEXT_BATCH.match(str(name))
    ]
    return max(found, key=lambda row: row.share, default=None)


@derived
def loading(trace: Trace) -> Total | None:
    """The DataLoader in a table of torch.profiler, with the operators that it calls; None where none was printed."""
    rows = (
        (str(name), share, ns, calls)
        for table in trace.tables
        for name, share, ns, calls in zip(
            table.column("Name"),
            table.column("CPU total"),
            _in_ns(table, "CPU total"),
            table.column("# of Calls"),
            strict=False,
        )
        if isinstance(share, float) and isinstance(calls, float) and LOADER.match(str(name))
    )
    longest = max(rows, key=lambda row: row[1], default=None)
    return None if longest is None else Total(longest[0], longest[2], longest[1] / 100.0, longest[3])


def _in_ns(table: ResultTable, name: str) -> list[float]:
    """The cells of the first column of this name with times, in ns; 0 for those that hold none."""
    timed = (at for at, each in enumerate(table.columns) if each.name == name and each.unit in TIMES)
    place = next(timed, -1)
    return [_number(row, place) * _factor_of(table, place) for row in table.rows] if place >= 0 else []


@dataclass(frozen=True, slots=True)
class OwnCode:
    """One of the program's own functions: its share with the libraries it calls, and which of these takes the most."""

    name: str
    ns: float
    share: float
    below: str
    below_share: float  # of it


@derived
def own_code(trace: Trace) -> tuple[OwnCode, ...]:
    """The program's own functions where a profile tells who called whom, the longest first."""
    titles = tuple(column.name for column in OWN_CODE)
    return tuple(
        OwnCode(str(name), time * TIMES["s"], share / 100.0, str(below or ""), (part or 0.0) / time)
        for table in trace.tables
        if tuple(column.name for column in table.columns) == titles
        for name, time, share, below, part in table.rows
        if isinstance(time, float) and isinstance(share, float) and not isinstance(part, str) and time > 0
    )


def _spent(table: ResultTable, totals: Totals) -> Spent | None:
    rows = list(_rows(table, totals))
    _, longest, share, *_ = max(rows, key=lambda row: row[1], default=("", 0.0, 0.0))
    barriers = next((row for row in rows if row[0] == BARRIER_PACKET), None)
    rows = [row for row in rows if row is not barriers]
    printed = sum(ns for _, ns, *_ in rows)
    if not printed:
        return None
    waited = barriers[1] if barriers else 0.0
    stated = totals.whole * _factor(table, totals)
    whole = (stated or (longest / share * 100.0 if share >= MIN_STATED else printed + waited)) - waited
    return replace(
        _of(totals.of, whole, rows),
        barriers=Total(BARRIER_PACKET, waited, 0.0, barriers[3]) if barriers else None,
        timed=totals.time >= 0,
        by_line=table.columns[totals.name].name == LINE,
        stated=stated > 0,
    )


def _of(of: TimeOf, whole: float, rows: list[_Row]) -> Spent:
    """Rows of one name, such as those of several threads, are one."""
    times: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, float] = defaultdict(float)
    calls: defaultdict[str, float] = defaultdict(float)
    for name, ns, _, count, longest in rows:
        times[name] += ns
        counts[name] += count
        calls[name] = max(calls[name], longest)
    longest_first = sorted(times.items(), key=lambda row: -row[1])
    notebook = any(_OF_NOTEBOOK.search(name) for name in times)
    told = (
        Total(name, ns, ns / whole, counts[name], calls[name], notebook)
        for name, ns in longest_first
        if ns > 0
    )
    return Spent(of, whole, tuple(told))


def _joined(of: TimeOf, parts: list[Spent]) -> Spent:
    """Kernels and copies, which are printed apart; what another table groups by shapes as well is stated once more."""
    apart: list[Spent] = []
    for part in sorted(parts, key=lambda each: -sum(row.ns for row in each.rows)):
        known = {row.name for each in apart for row in each.rows}
        again = sum(row.ns for row in part.rows if row.name in known)
        same_run = part.stated and any(each.stated and _tables([each.ns, part.ns]) == 1 for each in apart)
        if not same_run and again < MAJORITY * sum(row.ns for row in part.rows):
            apart.append(part)
    if len(apart) == 1:
        return apart[0]
    rows = [(row.name, row.ns, 0.0, row.calls, row.longest) for part in apart for row in part.rows]
    barriers = next((part.barriers for part in apart if part.barriers), None)
    return replace(_of(of, sum(part.ns for part in apart), rows), barriers=barriers)


def _rows(table: ResultTable, totals: Totals) -> Iterator[_Row]:
    """What is known of each row; without ranges around others, whose share is above that of everything."""
    time = _time(totals)
    factor = _factor(table, totals)
    for index, row in enumerate(table.rows):
        if index in totals.without:
            continue
        if totals.kind is not None and row[totals.kind[0]] != totals.kind[1]:
            continue
        share = _number(row, totals.share)
        if share <= 100.0:
            longest = _number(row, totals.longest) * _factor_of(table, totals.longest)
            calls = _number(row, totals.calls)
            yield str(row[totals.name]), _number(row, time) * factor, share, calls, longest


def _time(totals: Totals) -> int:
    return totals.time if totals.time >= 0 else totals.share


def _factor(table: ResultTable, totals: Totals) -> float:
    """ns in one unit of the times."""
    return _factor_of(table, _time(totals))


def _factor_of(table: ResultTable, place: int) -> float:
    return TIMES.get(table.columns[place].unit, 1.0)


def _number(row: tuple[Cell, ...], place: int) -> float:
    cell = row[place] if place >= 0 else None
    return cell if isinstance(cell, float) and cell >= 0 else 0.0
