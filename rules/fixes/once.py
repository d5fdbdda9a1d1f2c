"""Whether what a fix takes away came only once in a recording in which nothing repeats: that is no gain of a step."""

from __future__ import annotations

import numpy as np

from rules.analysis.steps.first_use import calls_of_first_pass
from rules.replay.replay import Change, Replay
from rules.terms.shares import MAJORITY

# Where no steps were found: nearly all of it in so few places of each GPU, or in such a part of the program's calls.
# What a program does in each layer or round is spread over more of them: 6 % in a model of four layers.
FEW, FEW_OF_CALLS = 3, 0.02
NEARLY_ALL = 0.75  # of what is taken away
TOO_FEW_STEPS = 2  # to tell what each has from what one of them had


def comes_once(replay: Replay, change: Change) -> bool:
    """Whether a few places of the host or the GPU hold nearly all that a change takes away, and too few steps repeat.

    So does one that takes nearly all away at calls of a first pass: first launches of a kernel, and memory that a
    framework then keeps. Waiting that a change ends leaves no mark at a place: what only ends waits is never said to
    come once.
    """
    has_steps = any(span.numbers for span in replay.spans)
    if has_steps and replay.steps != TOO_FEW_STEPS:
        return False
    gpus = len(replay.analysis.active_devices)  # what happens once to a program happens to each of them
    few = gpus if has_steps else max(FEW * gpus, FEW_OF_CALLS * len(replay.host))
    before, after = replay.usual, replay.overlay([change])
    runs = np.where(before.present, before.duration, 0.0) - np.where(after.present, after.duration, 0.0)
    host = (before.gap + before.cost) - (after.gap + after.cost)
    saved = np.maximum(np.concatenate((host, before.tail - after.tail, runs)), 0.0)
    if replay.steps < TOO_FEW_STEPS:
        calls = np.flatnonzero(np.isin(replay.host.event, calls_of_first_pass(replay.analysis.trace)))
        few_first = len(calls) <= MAJORITY * len(replay.host)
        if few_first and saved.sum() > 0 and saved[calls].sum() >= NEARLY_ALL * saved.sum():
            return True
    places = np.cumsum(np.sort(saved)[::-1])
    return bool(places[-1] > 0 and 1 + np.searchsorted(places, NEARLY_ALL * places[-1]) <= few)
