"""Opens recordings for windows and commands, in a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from parsers.files.fetched import address_of
from parsers.model import Progress, Trace
from parsers.model.late import dataclass
from parsers.storage.entries import log_failure
from viewer.loading.apart import is_for_another_process, may_cost_more_than_it_looks
from viewer.loading.ranks.asking import may_be_many
from viewer.remote.addresses import bring_here

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from rules.terms import Thresholds
    from viewer.loading.process import LoadingProcess
    from viewer.loading.ranks.opened import ManyRanksOpened

_MAX_NAMES = 5_000  # of one kind of lane


@dataclass(frozen=True, slots=True)
class Opened:
    """A recording that was read; ``process`` is the one that read it and analyses it.

    Of a run of ``many`` ranks the trace holds those that are compared.
    """

    trace: Trace
    process: LoadingProcess | None = None
    many: ManyRanksOpened | None = None


def opened(
    paths: Sequence[Path], progress: Progress, preview: Callable[[Trace], None], thresholds: Thresholds
) -> Opened:
    """Read files as one run; ``preview`` gets the first events of a large one long before.

    The process that reads it goes on to analyse it with these thresholds. Raises ``TraceError``; where this
    process reads, also one of ``SYSTEM_ERRORS``.
    """
    if may_be_many(paths):
        from viewer.loading.ranks.opened import opened_many

        if (many := opened_many(paths, progress.part(0.0, 0.9), thresholds)) is not None:
            return opened_ranks(many, progress.part(0.9, 1.0), thresholds)
    return _opened(paths, progress, preview, thresholds)


def opened_ranks(many: ManyRanksOpened, progress: Progress, thresholds: Thresholds) -> Opened:
    """The ranks of a run of many that are compared, read in full."""
    return replace(_opened(many.paths, progress, lambda _: None, thresholds), many=many)


def _opened(
    paths: Sequence[Path], progress: Progress, preview: Callable[[Trace], None], thresholds: Thresholds
) -> Opened:
    if any(address_of(path) for path in paths):
        bring_here(paths, progress.part(0.0, 0.3))
        progress = progress.part(0.3, 1.0)
    if is_for_another_process(paths):
        from viewer.loading.process import CannotLoadThere

        try:
            return _elsewhere(paths, progress, preview, thresholds)
        except CannotLoadThere:
            log_failure(__name__, "read in the window's own process", warn=True)
    from parsers import open_trace

    trace = open_trace(paths, progress)
    _learn(trace)
    return Opened(trace)


def read_apart(
    paths: Sequence[Path], progress: Progress, meanwhile: Callable[[], None] = lambda: None
) -> Trace:
    """Read files as one run for a command, in a process that can be ended at any moment where that may be needed.

    Such are archives, databases and whatever is not small once it is unpacked: what they cost is not told by their
    size. While that process reads, this one does what is to be done ``meanwhile``. Raises like ``opened``.
    """
    if any(address_of(path) for path in paths):
        bring_here(paths, progress.part(0.0, 0.3))
        progress = progress.part(0.3, 1.0)
    if may_cost_more_than_it_looks(paths):
        from viewer.loading.process import CannotLoadThere, LoadingProcess

        try:
            process = LoadingProcess(paths, only_read=True)
            try:
                meanwhile()
                return process.trace(progress, lambda _: None)
            finally:
                process.close()
        except CannotLoadThere:
            log_failure(__name__, "read in the command's own process")
    from parsers import open_trace

    return open_trace(paths, progress)


def _elsewhere(
    paths: Sequence[Path], progress: Progress, preview: Callable[[Trace], None], thresholds: Thresholds
) -> Opened:
    from viewer.loading.process import LoadingProcess
    from viewer.timeline.geometry.drawing_index import build_index, drawing_index

    def show(first: Trace) -> None:
        drawing_index.keep(first, build_index(first))
        _learn(first)
        preview(first)

    process = LoadingProcess(paths, thresholds)
    try:
        load_ahead()  # while the other process works
        trace = process.trace(progress, show)
        drawing_index.keep(trace, process.index(trace))
        _learn(trace)
    except BaseException:
        process.close()
        raise
    return Opened(trace, process)


def _learn(trace: Trace) -> None:
    """What a name means and which events are a GPU's is remembered: the window need not find out."""
    from viewer.timeline.geometry.drawing_index import drawing_index
    from viewer.timeline.kinds.base import style_of

    _ = trace.kinds, trace.gpu_operations
    for kind, names in drawing_index(trace).names.items():
        style = style_of(kind)
        for name in names[:_MAX_NAMES].tolist():
            style.key(trace.strings[name])


def analysis_of(read: Opened, progress: Progress, thresholds: Thresholds) -> tuple[Analysis, Diagnosis]:
    """The analysis of what was opened, and the diagnosis; by the process that read it, or another if asked again.

    The diagnosis of a run of many ranks is that of all of them.
    """
    analysis, diagnosis = _analysis_of(read, progress, thresholds)
    return analysis, diagnosis if read.many is None else read.many.told_of(read.trace, diagnosis)


def _analysis_of(read: Opened, progress: Progress, thresholds: Thresholds) -> tuple[Analysis, Diagnosis]:
    from viewer.loading.analysing import analysed, prepared

    load_ahead()
    if read.process is not None:
        from viewer.loading.process import CannotLoadThere

        process = read.process
        try:
            if not process.will_answer(thresholds):
                process = process.again(thresholds)
            return prepared(*process.analysis(read.trace, progress))
        except CannotLoadThere:
            log_failure(__name__, "analysed in the window's own process", warn=True)
        finally:
            process.close()
    return prepared(*analysed(read.trace, progress, thresholds))


@cache
def load_ahead() -> None:
    """Load what the window needs once a recording is there; half a second the first time, for a background thread."""
    import numpy.ma  # noqa: F401  numpy itself loads it late
    import pandas  # noqa: F401

    from parsers.model import LaneKind
    from rules import documentation  # noqa: F401
    from rules.analysis.gpu import cost  # noqa: F401
    from rules.findings.base import rules
    from viewer.capture import next_recording  # noqa: F401
    from viewer.panels.findings import finding_card  # noqa: F401
    from viewer.statistics import kernels, operators, what_if  # noqa: F401
    from viewer.timeline.kinds.base import style_of

    rules()
    style_of(LaneKind.OTHER)
