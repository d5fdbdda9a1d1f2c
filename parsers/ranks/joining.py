"""Whether a recording can be another rank of a run that is open, or be shown beside its timeline."""

from __future__ import annotations

from pathlib import Path

from parsers.files.base import Accompanying, parser_of
from parsers.files.source import identify
from parsers.model import Trace, TraceError
from parsers.ranks.rank_choice import Member, members_of_one_run


def may_grow(run: Trace) -> bool:
    """Whether ranks of this run can be missing: it has a timeline, and fewer ranks than it says it had."""
    stated = [rank.world_size for rank in run.ranks if rank.world_size]
    return bool(len(run.events)) and (not stated or len(run.ranks) < max(stated))


def may_join(run: Trace, other: Trace) -> bool:
    """Whether another recording can be a rank of this run: of its format and time, and of no rank that is there."""
    same_format = run.inputs[:1] and other.inputs[:1] and run.inputs[0].format == other.inputs[0].format
    there = {rank.rank for rank in run.ranks}
    return (
        may_grow(run)
        and may_grow(other)
        and bool(same_format)
        and there.isdisjoint(r.rank for r in other.ranks)
        and _of_one_time(Member.of(run), Member.of(other))
    )


def _of_one_time(run: Member, other: Member) -> bool:
    """Ranks that say which they are may be recorded one after the other; of those that do not, the times overlap."""
    told = run.rank is not None and other.rank is not None
    if told or run.span is None or other.span is None:
        return not members_of_one_run([run, other]).left_out
    return max(run.span[0], other.span[0]) <= min(run.span[1], other.span[1])


def goes_beside(run: Trace, path: Path) -> bool:
    """Whether of this run and a file, by its first bytes, one has a timeline and the other what is shown beside it.

    What stands beside timelines and has events, such as the dump of another rank, goes beside its like as well.
    """
    try:
        parser = parser_of(identify(path))
    except TraceError:
        return False
    beside = isinstance(parser, Accompanying)
    return bool(parser and parser.title) and (_has_timeline(run) is beside or (run.stands_beside and beside))


def complete_each_other(run: Trace, other: Trace) -> bool:
    """Whether one of both has a timeline, and the other what is shown beside it."""
    return _has_timeline(run) is not _has_timeline(other)


def _has_timeline(trace: Trace) -> bool:
    return bool(len(trace.events)) and not trace.stands_beside
