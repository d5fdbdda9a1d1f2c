"""Steps, and operators of one, that the CPU needed far longer for than for others: chance, not the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parsers.model.arrays import BOOL, F64, distinct_values, median_of, percentile_of
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, measure, union
from rules.replay.host import HostNodes

MIN_STEPS = 3  # of fewer none is the odd one
SLOW = 1.5  # times the median of all steps
# of the steps: nothing but a slower CPU makes the same calls take longer in all other steps
QUICK_PERCENTILE = 25
SLOW_STEP, SLOW_CALLS = 1.25, 1.2  # times the quick ones, for a whole step and for half of its calls
# times as much slower as the step's calls are: then the program did more there; of what the step took longer
FAR_SLOWER, MOSTLY = 2.0, 0.5
MIN_NS = 250_000.0  # of additional time
# places of a thread's steps, so many calls apart, at which one step stopped and no other did: fewer can be work that
# comes now and then, and so is what takes longer
MIN_STOPS, APART, MAX_STOP_NS = 3, 20, 20_000_000.0


def time_within(host: HostNodes, of: Callable[[int], Intervals]) -> F64:
    """How much of the time before each call passed in the intervals of its thread (ns)."""
    found = np.zeros(len(host))
    for thread, members in enumerate(host.members):
        parts = [of(each) for each in members]
        covered = union(
            np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        )
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        begin = host.start[mine] - host.gap[mine].astype(np.int64)
        found[mine] = measure(covered, begin, host.start[mine])
    return found


def operators_before(analysis: Analysis, host: HostNodes) -> F64:
    """How much of the time before each call passed inside operators (ns)."""
    return time_within(host, lambda thread: analysis.threads.activity(thread).running)


def by_chance(analysis: Analysis, host: HostNodes, cost: F64) -> tuple[F64, F64]:
    """By how much longer than usual the time before each call, and its ``cost``, were (ns).

    Only threads whose steps make the same calls are compared, call by call. Where most calls of a step took longer than
    in the quick steps, the CPU was slower in it, unless most of the additional time is in one place; else only what
    passed inside the same operators is known to be the same. The CPU also did something else where single steps
    stopped at several places, unless the recording says itself when something else had it.
    """
    found, inside = np.zeros(len(host)), np.zeros(len(host))
    operators = operators_before(analysis, host)
    interruptions_known = time_within(host, analysis.interruptions).any()
    for thread in range(host.threads):
        mine = slice(int(host.first[thread]), int(host.first[thread + 1]))
        steps = host.step[mine]
        often = np.bincount(steps)
        if len(often) < MIN_STEPS or np.ptp(often) or not often[0]:
            continue
        shape = len(often), -1
        calls, records = host.call[mine].reshape(shape), host.written.records[mine].reshape(shape)
        took = operators[mine].reshape(shape)
        usual = median_of(took, axis=0)
        longer = np.maximum(took - usual, 0.0)
        same = (calls == calls[0]) & (records == median_of(records, axis=0))
        odd = same & (took > SLOW * usual) & (longer >= MIN_NS)
        each = np.maximum(host.gap[mine] + cost[mine], 1.0).reshape(shape)
        whole = each.sum(axis=1)
        quick = float(percentile_of(whole, QUICK_PERCENTILE))
        slow = whole > SLOW_STEP * quick
        usually = percentile_of(each, QUICK_PERCENTILE, axis=0)
        times = each / usually
        slower = median_of(times, axis=1)[:, None]
        elsewhere = np.where(times > FAR_SLOWER * slower, each - usually, 0.0).max(axis=1)
        slow &= (slower[:, 0] > SLOW_CALLS) & (elsewhere < MOSTLY * (whole - quick))
        lost = np.where(same & slow[:, None], 1.0 - quick / whole[:, None], 0.0).ravel()
        found[mine], inside[mine] = lost * host.gap[mine], lost * cost[mine]
        found[mine] = np.maximum(found[mine], np.where(odd, longer, 0.0).ravel())
        if not interruptions_known:
            found[mine] = np.maximum(found[mine], _stops(host.gap[mine].reshape(shape), same).ravel())
    return np.minimum(found, host.gap), inside


def _stops(gaps: F64, same: BOOL) -> F64:
    """How much longer gaps of single steps were than the same gap of all others (ns); steps by places in a step.

    None where all are in one step, or in fewer than ``MIN_STOPS`` places: the program may do something there.
    """
    usual = median_of(gaps, axis=0)
    longer = gaps - usual
    stopped = same & (longer >= MIN_NS) & (longer <= MAX_STOP_NS) & (gaps > FAR_SLOWER * usual)
    stopped &= np.count_nonzero(longer >= MIN_NS, axis=0) == 1
    steps, places = np.nonzero(stopped)
    places = distinct_values(places)
    apart = 1 + np.count_nonzero(np.diff(places) >= APART) if len(places) else 0
    is_chance = apart >= MIN_STOPS and len(distinct_values(steps)) > 1
    return np.where(stopped, longer, 0.0) if is_chance else np.zeros(gaps.shape)
