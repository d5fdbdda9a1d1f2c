"""Reduces the file of one rank to its summary: what a process of the pool, or a worker of a cluster, does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from parsers.files.source import identify
from parsers.model import SYSTEM_ERRORS, Progress, TraceError, refused_by_system
from parsers.opening import read_one
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.summaries.reduction import summary_of
from rules.terms import Thresholds
from viewer.loading.ranks.summaries import Reduced, Wanted, as_bytes


def load() -> None:
    """Load what any recording is reduced with, before there is one."""
    from rules.analysis.names.families import classify
    from rules.findings.base import rules

    rules(counters=False)
    classify("")  # makes the patterns of all families


def reduce_rank(wanted: Wanted, progress: Progress | None = None) -> Reduced:
    """Read, analyse and reduce one recording. What is wrong with it is an answer, never an exception."""
    try:
        if wanted.remote:
            from viewer.loading.ranks.remote_files import fetched

            with fetched(wanted) as local:
                return _reduced(local, progress or Progress())
        return _reduced(wanted, progress or Progress())
    except TraceError as error:
        return Reduced(problem=error.problem)
    except SYSTEM_ERRORS as error:
        return Reduced(problem=refused_by_system(error, wanted.shown).problem)


def _reduced(wanted: Wanted, progress: Progress) -> Reduced:
    sources = [identify(Path(file)) for file in wanted.files]
    sources = [replace(source, shown=wanted.shown) for source in sources]
    trace = read_one(sources, progress.part(0.0, 0.6), wanted.format)
    analysis = Analysis(trace, Thresholds(dict(wanted.thresholds)), is_one_of_many=True)
    diagnosis = diagnosis_of(analysis, progress.part(0.6, 1.0), predicts=False)
    return Reduced(as_bytes(summary_of(analysis, diagnosis)))
