"""When a thread had a data loader's workers ended and started anew, as PyTorch does for each pass over the data."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, I64, EventKind, derived_by
from parsers.model.arrays import median_of
from parsers.model.events import of_kinds
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, union

OF_WORKERS = "_MultiProcessingDataLoaderIter"
MIN_START_NS = 1_000_000  # in which nothing is recorded: starting a process takes at least that
# ... and right before an order of the data is drawn: a sampler draws a seed for it as well, and starts nothing
MIN_BEFORE_SHUFFLE_NS = 20_000_000
AT_ONCE_NS = 1_000_000  # between the draw of the workers' seed and the reading of its value
FEW_OPERATORS = 40  # of the sampler, from the start of the workers to the first fetch
FEW_BETWEEN = 4  # from the fetch that found no more data to the draw of the seed
_DRAW, _READ, _SHUFFLE = "aten::random_", "aten::item", "aten::randperm"
_RECORDED = (EventKind.CPU_OP, EventKind.REGION, EventKind.API)


@dataclass(frozen=True, slots=True, eq=False)
class WorkerStarts:
    """One start for each row, by time (ns): processes start from ``began`` to ``ended``.

    Then the first batch is fetched until ``fetched``, beyond what a fetch usually takes. ``event`` is that fetch.
    In ``ends`` processes end: in fetches that found no more data, or where a pass was left before its end, in the time
    in which nothing is recorded right before the next start, no longer than that start.
    """

    began: I64
    ended: I64
    fetched: I64
    event: I64
    ends: Intervals

    def __len__(self) -> int:
        return len(self.began)

    @property
    def processes(self) -> Intervals:
        """While processes end and start."""
        return union(np.append(self.ends[0], self.began), np.append(self.ends[1], self.ended))

    @property
    def first_batches(self) -> Intervals:
        """While the first batch is made, which nobody had begun before."""
        return union(self.ended, self.fetched)

    @property
    def whole(self) -> Intervals:
        return union(np.append(self.ends[0], self.began), np.append(self.ends[1], self.fetched))


@derived_by
def worker_starts(analysis: Analysis, thread: int) -> WorkerStarts:
    """The starts of workers that a thread waited for.

    Making an iterator over a DataLoader with workers draws their seed (``random_``, then ``item``) and starts the
    processes, which leaves no record; then the first batch is fetched. Persistent workers start once.
    """
    trace, table = analysis.trace, analysis.trace.events
    events = analysis.threads.events(thread)
    recorded = trace.events.by_start(events[of_kinds(table.kind[events], *_RECORDED)])
    fetches = recorded[named(trace, recorded, lambda name: OF_WORKERS in name)]
    draws, reads = (recorded[named(trace, recorded, one.__eq__)] for one in (_DRAW, _READ))
    if not (len(fetches) and len(draws) and len(reads)):
        return _NONE
    at = table.start[recorded]
    seeds = draws[np.maximum(np.searchsorted(table.start[draws], table.start[reads]) - 1, 0)]
    began = table.end[reads]
    following = np.searchsorted(at, began)
    fetched = np.searchsorted(table.start[fetches], began)
    apart = table.start[reads] - table.end[seeds]
    first = fetches[np.minimum(fetched, len(fetches) - 1)]
    following = np.minimum(following, len(at) - 1)
    shuffles = named(trace, recorded[following], _SHUFFLE.__eq__)
    silent = at[following] - began
    found = (apart >= 0) & (apart < AT_ONCE_NS) & (fetched < len(fetches))
    found &= silent >= np.where(shuffles, MIN_BEFORE_SHUFFLE_NS, MIN_START_NS)
    found &= np.searchsorted(at, table.start[first]) - following <= FEW_OPERATORS
    found[found] = np.append(True, np.diff(fetched[found]) > 0)[
        : np.count_nonzero(found)
    ]  # the sampler draws, too
    seeds, began, first, fetched = seeds[found], began[found], first[found], fetched[found]
    if not len(first):
        return _NONE
    took = table.duration[fetches]
    usual = int(median_of(np.delete(took, fetched))) if len(fetched) < len(fetches) else 0
    ending = _ending(fetches, *table.spans(fetches), at)
    before = np.maximum(fetched - 1, 0)
    between = np.searchsorted(at, table.start[seeds]) - np.searchsorted(at, table.end[fetches[before]])
    ending[before[(fetched > 0) & (between >= 0) & (between <= FEW_BETWEEN)]] = True
    others = recorded[table.kind[recorded] != EventKind.REGION]
    left = (fetched > 0) & ~ending[before]
    left_at = _silence_before(
        *table.spans(others), table.start[seeds[left]], (table.start[first] - began)[left]
    )
    ending[fetched] = False
    return WorkerStarts(
        began=began,
        ended=table.start[first],
        fetched=np.maximum(table.end[first] - usual, table.start[first]),
        event=first,
        ends=union(*(np.append(*each) for each in zip(table.spans(fetches[ending]), left_at, strict=True))),
    )


def _silence_before(start: I64, end: I64, draws: I64, most: I64) -> Intervals:
    """The last ``most`` ns or less in which nothing is recorded before some draws, and the tensors that they fill."""
    before = start[np.maximum(np.searchsorted(start, draws) - 1, 0)] if len(start) else draws
    begins = np.where(draws - before < AT_ONCE_NS, np.minimum(before, draws), draws)
    ended = np.append(np.iinfo(np.int64).min // 2, np.sort(end))
    silent = np.minimum(begins - ended[np.searchsorted(ended, begins, side="right") - 1], most)
    long = silent >= MIN_START_NS
    return (begins - silent)[long], begins[long]


def _ending(fetches: I64, start: I64, end: I64, at: I64) -> BOOL:
    """Which fetches give no batch and yet take long: a batch from another process is put together by operators."""
    inside = np.searchsorted(at, end) - np.searchsorted(at, start, side="right")
    if not len(fetches) or median_of(inside) == 0:
        return np.zeros(len(fetches), bool)
    return np.asarray((inside == 0) & (end - start >= MIN_START_NS))


_EMPTY = np.empty(0, np.int64)
_NONE = WorkerStarts(_EMPTY, _EMPTY, _EMPTY, _EMPTY, (_EMPTY, _EMPTY))
