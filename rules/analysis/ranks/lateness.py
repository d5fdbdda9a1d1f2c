"""Whose lateness a collective's waiting is: every moment of it is for the participants that have not arrived yet."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import BOOL, F64, I64

LEAST_BLAME = 0.5  # more than this part of all waiting must be for one rank: else they take turns
BESIDE_IT = 0.25  # of all waiting: what a second late rank must be to blame for, to be named with the first
# of all waiting: what a few late ranks together must be to blame for where no single one stands out
NEARLY_ALL = 0.9
AS_LATE = 0.5  # of the latest one's blame: those few are about equally late


def blame(present: BOOL, wait: I64) -> F64:
    """(instances, devices): the part of each collective's waiting that is for each device; rows add up to 1 or 0.

    ``wait`` is how long each participant waited, so that the one that came last waits 0. Between two arrivals those who
    are there wait for all who are not, in equal parts.
    """
    instances, devices = wait.shape
    order = np.argsort(np.where(present, -wait, 1), axis=1, kind="stable")
    sorted_wait = np.take_along_axis(np.where(present, wait, 0), order, axis=1).astype(np.float64)
    taking_part = present.sum(axis=1)[:, None]
    there = np.arange(1, devices)[None, :]
    pause = np.where(there < taking_part, sorted_wait[:, :-1] - sorted_wait[:, 1:], 0.0)
    for_each = pause * there / np.maximum(taking_part - there, 1)
    charged = np.concatenate((np.zeros((instances, 1)), np.cumsum(for_each, axis=1)), axis=1)
    found = np.zeros((instances, devices))
    np.put_along_axis(found, order, charged, axis=1)
    found[~present] = 0.0
    total = found.sum(axis=1, keepdims=True)
    shares: F64 = found / np.where(total > 0, total, 1.0)
    return shares


def late_devices(last: F64, blamed: F64, least: float) -> tuple[int, ...]:
    """The devices that come late, the costliest first; none when they take turns or nobody waits.

    ``last`` and ``blamed`` give each device's waiting caused by coming last, and by not being there yet; ``least`` is
    how much a second one must cost to be named. Those named are never more than half: else the others are early.
    """
    if not last.sum() or not blamed.sum():
        return ()
    by_blame = np.argsort(-blamed, kind="stable")
    most = max(len(blamed) // 2, 1)
    first = int(last.argmax())
    if last[first] > LEAST_BLAME * last.sum():
        beside = (blamed >= BESIDE_IT * blamed.sum()) & (blamed >= least)
        return (first, *[each for each in by_blame.tolist() if beside[each] and each != first])[:most]
    few = blamed >= AS_LATE * blamed.max()
    if 1 < few.sum() <= most and blamed[few].sum() >= NEARLY_ALL * blamed.sum():
        return tuple(each for each in by_blame.tolist() if few[each])
    return ()
