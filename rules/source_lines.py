"""From a finding to the line of the user's own code that one would open in an editor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import I64, EventKind, Trace, derived_by
from parsers.model.arrays import distinct_values
from parsers.model.names.source_files import frame_parts
from rules.analysis.arithmetic.intervals import clip, length, union
from rules.analysis.idle.threads import UserFrames
from rules.analysis.stretches.program_frames import FRAMES, is_program_frame, program_frames, program_script
from rules.terms import NEARLY_ALL, Culprit, CulpritKind, SourceLine

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis
    from rules.findings.base import Finding

MAX_EVIDENCE = 200  # places of a finding that are looked at
_READS = {"aten::_local_scalar_dense": "aten::item"}  # what reads a value, by how the program calls it


def source_line_of(analysis: Analysis, finding: Finding) -> SourceLine | None:
    """The line a finding is about: its culprit's, else that of the deepest own frame around most of its evidence.

    Without stacks, the line from which the recorder saw the culprit called. None where the recording has neither.
    """
    return (
        _of_culprit(analysis, finding.culprit)
        or _of_kernel(analysis, finding)
        or _of_evidence(analysis, finding)
        or _of_recorder(analysis, finding)
    )


def line_of_frame(name: str, *, is_call: bool) -> SourceLine | None:
    """The line that a recorded frame names; None for one of a library."""
    if not is_program_frame(name):
        return None
    function, file, line = frame_parts(name)
    return SourceLine(file, line, function, is_call)


def _of_culprit(analysis: Analysis, culprit: Culprit | None) -> SourceLine | None:
    while culprit is not None:
        if culprit.at is not None:
            return culprit.at
        found = line_of_frame(culprit.name, is_call=False) if culprit.kind is CulpritKind.FRAME else None
        if found is not None and program_script(analysis.trace) in (None, found.file):
            return found
        culprit = culprit.place
    return None


def _of_kernel(analysis: Analysis, finding: Finding) -> SourceLine | None:
    """The line of a profiled kernel that most samples of its warps fell on."""
    profile = next((each for each in analysis.trace.kernels if each.id == finding.kernel), None)
    if profile is None or profile.source is None or not profile.source.places:
        return None
    source = profile.source
    seen: Counter[int] = Counter()
    for place, samples in zip(source.place, source.samples, strict=False):
        if place >= 0:
            seen[place] += samples
    if not seen:
        return None
    costliest = source.places[seen.most_common(1)[0][0]]
    return SourceLine(costliest.file, costliest.line)


def _of_evidence(analysis: Analysis, finding: Finding) -> SourceLine | None:
    if not set(FRAMES) & set(analysis.trace.kinds):
        return None
    event = _around_most(analysis, finding, program_frames)
    if event < 0:
        return None
    is_call = int(analysis.trace.events.kind[event]) == EventKind.SAMPLED_FRAME
    return line_of_frame(analysis.trace.name(event), is_call=is_call)


def _of_recorder(analysis: Analysis, finding: Finding) -> SourceLine | None:
    """From where the program calls the culprit, or what surrounds most of the evidence, as the recorder saw it."""
    if not analysis.trace.capture.places:
        return None
    for name in finding.culprit.names:
        if places := _calls_of(analysis.trace, _READS.get(name, name)):
            return _usual(places)
    event = _around_most(analysis, finding, _recorded_ranges)
    return _usual(_calls_of(analysis.trace, analysis.trace.name(event))) if event >= 0 else None


def _calls_of(trace: Trace, name: str) -> Counter[SourceLine]:
    calls: Counter[SourceLine] = Counter()
    for each in trace.capture.places:
        if each.name == name:
            calls[SourceLine(each.file, each.line, each.function)] += each.count
    return calls


def _usual(calls: Counter[SourceLine]) -> SourceLine | None:
    """The line of nearly all calls; None where no line stands for them."""
    line, count = calls.most_common(1)[0]
    return line if count >= NEARLY_ALL * calls.total() else None


@derived_by
def _recorded_ranges(analysis: Analysis, thread: int) -> UserFrames:
    """The ranges of one thread of which the recorder saw where the program opened them."""
    names = {each.name for each in analysis.trace.capture.places}
    return UserFrames.of(analysis.threads, thread, names.__contains__, (EventKind.REGION,))


def _around_most(
    analysis: Analysis, finding: Finding, frames_of: Callable[[Analysis, int], UserFrames]
) -> int:
    """An event of the name that surrounds most of the finding's evidence; -1 where nothing does."""
    spent: Counter[int] = Counter()
    for thread, start, end in _places(analysis, finding, frames_of):
        around = frames_of(analysis, thread).around(start, end)
        for event, ns in zip(around.tolist(), np.maximum(end - start, 1).tolist(), strict=True):
            if event >= 0:
                spent[event] += ns
    by_name: Counter[int] = Counter()
    names = analysis.trace.events.name
    for event, ns in spent.items():
        by_name[int(names[event])] += ns
    if not by_name:
        return -1
    name = by_name.most_common(1)[0][0]
    return next(event for event in spent if int(names[event]) == name)


def _places(
    analysis: Analysis, finding: Finding, frames_of: Callable[[Analysis, int], UserFrames]
) -> Iterator[tuple[int, I64, I64]]:
    """Threads, and when they were at what the finding shows: at the launch of GPU work, at the gap of a GPU."""
    trace, threads = analysis.trace, analysis.threads
    table = trace.events
    at: dict[int, list[tuple[int, int]]] = {}
    for each in finding.evidence[:MAX_EVIDENCE]:
        event, start, end = each.event, each.start, each.end
        if event >= 0 and trace.lanes[int(table.lane[event])].is_gpu:
            event = int(trace.links.launch_of(np.array([event]))[0])
            if event < 0:
                continue
            start, end = int(table.start[event]), int(table.end[event])
        thread = int(threads.of_events(np.array([event]))[0]) if event >= 0 else -1
        device = trace.lanes[each.lane].device if 0 <= each.lane < len(trace.lanes) else finding.device
        if (thread < 0 or not len(frames_of(analysis, thread).rows)) and device is not None:
            thread = threads.drivers(device)[1]
        if thread < 0:
            thread = _only_thread_with_frames(trace, analysis)
        if thread >= 0:
            at.setdefault(thread, []).append((start, end))
    for thread, spans in at.items():
        column = np.array(spans, np.int64)
        yield thread, column[:, 0], column[:, 1]


def _only_thread_with_frames(trace: Trace, analysis: Analysis) -> int:
    python = trace.events.of_kind(*FRAMES)
    found = distinct_values(analysis.threads.of_events(python))
    found = found[found >= 0]
    return int(found[0]) if len(found) == 1 else -1


@derived_by
def line_shares(analysis: Analysis, file: str) -> Mapping[int, float]:
    """Line -> share (0 to 1) of the analysed time in which a thread was there, or in what was called from there.

    A recorder that states where a function begins, not which of its lines was running, gives the time of the whole
    function at its first line. Empty for a file of which there are no frames.
    """
    trace, table = analysis.trace, analysis.trace.events
    t0, t1 = analysis.window
    events = table.of_kind(*FRAMES)
    line_of_name = np.zeros(len(trace.strings), np.int64)
    for name in distinct_values(table.name[events]).tolist():
        _, its_file, line = frame_parts(trace.strings[name])
        line_of_name[name] = line if its_file == file else 0
    lines = line_of_name[table.name[events]]
    shares = {}
    for line in distinct_values(lines[lines > 0]).tolist():
        there = events[lines == line]
        running = clip(union(*table.spans(there)), t0, t1)
        shares[line] = length(running) / max(t1 - t0, 1)
    return shares
