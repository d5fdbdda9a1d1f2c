"""Which columns of the tables that profilers print state a name and the time that is its own."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.csv_tables import plain
from parsers.model.late import dataclass, regex
from parsers.model.results import Cell, TimeOf, Totals

MIN_OF_KERNELS = 0.9  # of the time of the kernels: operators that have less were not all printed
MIN_OF_SUM = 0.9  # of what the other rows add up to: a row called "Total" that states less is one of them
_LONGEST = ("max", "maxns", "maxus")  # plain names of the column with the longest call of a row
# of PyTorch's own, on the GPU
_RANGE = regex(r"## |ProfilerStep|Optimizer\.|Torch-Compiled Region|nccl:|.+\(dynamo_timed")
# an operator that starts no kernel
_STARTS_NOTHING = regex(
    r"aten::(?:as_strided|view|select|slice|t|transpose|permute|expand|unsqueeze|squeeze|empty|empty_strided)$"
)
_DRIVES_A_GPU = regex(r"_{0,2}(?:cu|cuda|hip|hsa_)[A-Z_a-z]\w+$")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Plain names of columns, alternatives parted by a blank; ``kind`` is what a column "type" says of such rows."""

    of: TimeOf
    name: str
    time: str
    share: str
    calls: str
    kind: str = ""


_KNOWN = (
    _Columns(TimeOf.CPU, "name", "selfcpu", "selfcpu%", "ofcalls"),
    _Columns(TimeOf.GPU, "name", "selfcuda selfxpu", "selfcuda% selfxpu%", "ofcalls"),
    _Columns(TimeOf.GPU, "name", "time timeus", "time%", "calls", "GPU activities"),
    _Columns(TimeOf.CALLS, "name", "time timeus", "time%", "calls", "API calls"),
    _Columns(TimeOf.GPU, "name operation", "totaltimens", "time%", "instances operations count"),
    _Columns(TimeOf.CALLS, "name", "totaltimens", "time%", "numcalls"),
    _Columns(TimeOf.GPU, "name", "totaldurationns", "percentage", "calls"),
    _Columns(TimeOf.CALLS, "name", "totaldurationns", "percentage", "calls"),
    _Columns(TimeOf.GPU, "kernelname", "sumns", "pct", "count"),
    _Columns(TimeOf.GPU, "optype", "totaltimeus", "ratio%", "count"),
    _Columns(TimeOf.GPU, "kernelname opname optype", "totalgputimens", "", ""),
    _Columns(TimeOf.CPU, "opname optype", "totalcputimens", "", ""),
)


def totals_of(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> tuple[Totals, ...]:
    """What a table with these titles and rows adds up; empty where that is not known."""
    places = {plain(title): place for place, title in reversed(list(enumerate(header)))}
    found = []
    for each in _KNOWN:
        name, time, share, calls = (
            next((places[title] for title in names.split() if title in places), -1)
            for names in (each.name, each.time, each.share, each.calls)
        )
        if name < 0 or time < 0 or (each.share and share < 0) or (each.calls and calls < 0):
            continue
        if each.of is TimeOf.GPU and is_between_events(header, rows):
            continue
        kind = places.get("type") if each.kind else None
        if each.kind and kind is None and each.of is TimeOf.CALLS:
            continue  # nvprof's CSV of the GPU alone
        sums = _sums(rows, name, time)
        told = [
            row
            for index, row in enumerate(rows)
            if index not in sums and (kind is None or row[kind] == each.kind)
        ]
        are_calls = bool(told) and all(_DRIVES_A_GPU.match(str(row[name])) for row in told)
        if are_calls is not (each.of is TimeOf.CALLS):
            continue  # calls of the operating system, most of which wait; or of the GPU's library, as rocprof has them
        twice = _stated_twice(rows, name, time, places["selfcpu"]) if "selfcpu" in places else frozenset()
        without = sums | twice if each.of is TimeOf.GPU else sums
        kinds = None if kind is None else (kind, each.kind)
        longest = next((places[title] for title in _LONGEST if title in places), -1)
        found.append(Totals(each.of, name, time, share, calls, kinds, without=without, longest=longest))
    return tuple(found)


def is_between_events(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether the GPU's times in a table of PyTorch were taken between two events around each operator.

    They hold the wait for its launch, so that operators which start nothing have some, and others less than none.
    """
    plain_titles = [plain(title) for title in header]
    place = next((plain_titles.index(each) for each in ("selfcuda", "selfxpu") if each in plain_titles), -1)
    if place < 0:
        return False
    times = ((row[plain_titles.index("name")], row[place]) for row in rows) if "name" in plain_titles else ()
    return any(
        isinstance(time, float) and (time < 0 or (time > 0 and _STARTS_NOTHING.match(str(name)) is not None))
        for name, time in times
    )


def _sums(rows: Sequence[Sequence[Cell]], name: int, time: int) -> frozenset[int]:
    """Rows called "Total" that state what all others add up to."""
    stated = [cell if isinstance(cell := row[time], float) else 0.0 for row in rows]
    sums = {index for index, row in enumerate(rows) if str(row[name]).strip().lower() == "total"}
    others = sum(each for index, each in enumerate(stated) if index not in sums)
    return frozenset(index for index in sums if stated[index] >= MIN_OF_SUM * others)


def _stated_twice(rows: Sequence[Sequence[Cell]], name: int, gpu: int, cpu: int) -> frozenset[int]:
    """Rows of torch.profiler whose GPU time is that of others: of ranges, and of kernels or else of their operators.

    Operators tell more than their kernels, but not where the largest one copies.
    """
    on_cpu = {row[name] for row in rows if row[cpu]}
    ranges, kernels, operators = set(), dict[int, float](), dict[int, float]()
    for index, row in enumerate(rows):
        time = row[gpu]
        if not isinstance(time, float) or not time:
            continue
        if row[cpu]:
            operators[index] = time
        elif row[name] in on_cpu or _RANGE.match(str(row[name])):
            ranges.add(index)
        else:
            kernels[index] = time
    largest = max(operators, key=operators.__getitem__, default=None)
    by_operator = (
        largest is not None
        and sum(operators.values()) >= MIN_OF_KERNELS * sum(kernels.values())
        and rows[largest][name] != "aten::copy_"
    )
    return frozenset(ranges).union(kernels if by_operator else operators if kernels else ())
