"""Between which operators work without a name lies, where a recording has no frames or ranges around it."""

from __future__ import annotations

import numpy as np

from parsers.model.units import duration
from rules.fixes.changes import per_step
from rules.fixes.host_phases import HostPhase
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.phrases import listed
from rules.wording.words import Words

MAX_NAMED = 3
MIN_SHARE = 0.1  # of the work: less leads nowhere


def between_operators(replay: Replay, phase: HostPhase) -> tuple[Words, ...]:
    """Where to look, as one sentence; none where no such place holds much of the work."""
    host, trace = replay.host, replay.analysis.trace
    operator = surroundings_of(replay.analysis).whole_operator
    nodes = np.flatnonzero(phase.nodes & (phase.own > 0))
    nodes = nodes[~np.isin(nodes, host.first)]  # what is before the first call of a thread is not known
    nodes = nodes[
        (operator[nodes] >= 0) & (operator[nodes - 1] >= 0) & (operator[nodes] != operator[nodes - 1])
    ]
    names = trace.events.name[np.stack((operator[nodes - 1], operator[nodes]), axis=1)].astype(np.int64)
    pairs, which = np.unique(names, axis=0, return_inverse=True)
    took = np.bincount(which.reshape(-1), phase.own[nodes], len(pairs))
    order = np.argsort(-took, kind="stable")[:MAX_NAMED]
    whole = float(phase.own[phase.nodes].sum())
    places = [
        f"{trace.strings[pairs[each, 0]]} and {trace.strings[pairs[each, 1]]} "
        f"({duration(per_step(replay, float(took[each])))})"
        for each in order.tolist()
        if took[each] >= MIN_SHARE * whole
    ]
    if not places:
        return ()
    return (f"Look for it between the calls of {listed(places)} {replay.in_step}.",)
