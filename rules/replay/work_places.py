"""What the CPU works on in stretches of its own: a range, a function and the call it makes, an operator."""

from __future__ import annotations

from rules.analysis.arithmetic.intervals import Intervals
from rules.analysis.names.regions import is_collection
from rules.analysis.stretches.library_calls import library_calls
from rules.analysis.stretches.program_frames import program_frames
from rules.replay.replay import Replay
from rules.replay.surroundings import Surroundings
from rules.terms import MAJORITY, Culprit, CulpritKind


def place_of_work(
    replay: Replay, around: Surroundings, node: int, thread: int, stretches: Intervals
) -> Culprit | None:
    """What stretches of host work on one thread are, ``node`` being the call behind the longest; None: not known.

    Where the program calls a library for it, that call stands in the program's own function.
    """
    analysis = replay.analysis
    table = analysis.trace.events
    activity = analysis.threads.activity(thread)
    longest = (stretches[1] - stretches[0]).argmax()
    middle = (stretches[0][longest : longest + 1] + stretches[1][longest : longest + 1]) // 2
    region = int(activity.user_regions.at(middle)[0])
    named = analysis.trace.name(region) if region >= 0 else ""
    if named and region != int(activity.inputs.at(middle)[0]) and not is_collection(named):
        return Culprit(CulpritKind.REGION, named)
    own = program_frames(analysis, thread).holding(stretches)
    calls = [
        frame
        for frame in library_calls(analysis, thread).holding(stretches)
        if table.depth[frame] > (table.depth[own[-1]] if own else -1)
        and stretches[1][-1] - stretches[0][0] >= MAJORITY * (table.end[frame] - table.start[frame])
    ]
    frames = [*calls[:1], *own[-1:]]
    if frames:
        place = None
        for frame in reversed(frames):
            place = Culprit(CulpritKind.FRAME, analysis.trace.name(frame), place)
        return place
    name = around.place(node, loading=False)
    return Culprit(CulpritKind.REGION, name) if name else None
