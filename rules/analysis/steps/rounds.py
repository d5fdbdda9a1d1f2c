"""Rounds of cycles: an inner loop repeats within each step, and something comes once after each of its runs."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import I64

# a step that saves or validates now and then does so less often in a recording of a few steps
LEAST_ROUNDS = 4
ALIKE = 0.95  # of the cycles are as the one a round later
LONG = 0.5  # of the longest waits between cycles
# of a cycle's operations: an update of another network, where a log or a validation only adds some
LESS = 0.9
ODD_TIME = 1.5  # times a usual cycle: what is added takes so long that the cycles are no steps of one length


def rounds_of(begins: I64, counts: I64, starts: I64, ends: I64, trains: bool) -> I64:
    """Which cycles begin a round, as ascending places in ``begins``; empty where the cycles are the steps.

    ``counts`` are the operations from each cycle to the next, ``starts`` (ns) when each begins, ``ends`` when its own
    operations end. Where an optimizer runs in each (``trains``), a round must hold a cycle that does less than others.
    """
    none = np.empty(0, np.int64)
    whole = len(begins) - 1  # the last one may be cut off
    if whole < 2 * LEAST_ROUNDS - 1:
        return none
    lasted, waits = np.diff(starts), starts[1:] - ends[:-1]
    usual = float(np.median(lasted))
    long = waits >= max(LONG * float(np.sort(waits)[-(LEAST_ROUNDS - 1)]), usual)
    marks = np.unique(np.stack((counts[:whole], long)), axis=1, return_inverse=True)[1].ravel()
    for length in range(2, len(begins) // LEAST_ROUNDS + 1):
        if np.mean(marks[length:] == marks[:-length]) >= ALIKE and np.any(marks != marks[0]):
            break
    else:
        return none
    common = float(np.median(counts[:whole]))
    unlike = np.abs(counts[:whole] - common) + long * common
    phases = np.array([unlike[phase::length].mean() for phase in range(length)])
    odd = np.arange(int(phases.argmax()), whole, length)
    enough = np.median(counts[odd]) < LESS * common if trains else np.median(lasted[odd]) >= ODD_TIME * usual
    found: I64 = np.append(0, odd + 1) if odd[0] + 1 == length else odd + 1
    found = found[found < len(begins)]
    return found if enough and len(found) >= LEAST_ROUNDS else none
