"""The clocks, power and limits of a GPU while it worked, as a device log beside the recording has them.

Bits of the reasons: NVML's ``nvmlClocksEventReasons``. Shares of AMD's limits: violations of ``amd-smi monitor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np

from parsers.model import BOOL, F64, I64, Counter, Trace
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.units import NS_PER_S
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, measure

_OF_GPU = regex(r"GPU (\d{1,5}) (.+)$")
SM_CLOCKS = ("SM clock", "sclk", "graphics clock")
_MEMORY_CLOCKS = ("memory clock", "mclk")
_FULL_CLOCK = 0.97  # clocks of a healthy GPU waver by 1 to 2 % between readings
_MAX_BITS = float(1 << 53)  # a whole number up to here; what a damaged log states beyond is no reason


class Limit(Enum):
    """Why a GPU runs slower than it could: the words for it, the bit of the reasons, and the counters that say so."""

    HW_THERMAL = "its temperature (hardware slowdown)", 0x40, "hardware thermal slowdown"
    POWER_BRAKE = "an external power brake", 0x80, "hardware power brake"
    HW_SLOWDOWN = "a hardware slowdown", 0x08, "hardware slowdown"
    THERMAL = (
        "its temperature limit",
        0x20,
        "software thermal slowdown",
        "thermal throttling",
        "hot processor throttling",
        "hot regulator throttling",
        "hot memory throttling",
    )
    POWER = "its power limit", 0x04, "software power cap", "power throttling"
    SYNC_BOOST = "the slowest GPU of its group (sync boost)", 0x10, "sync boost"
    SETTING = "a clock that was set by hand", 0x02, "application clocks setting"

    def __init__(self, words: str, bit: int, *counters: str) -> None:
        self.words, self.bit, self.counters = words, bit, counters


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """What a log says of one device while it worked inside the window; None or 0 where it does not say.

    ``limited_ns`` is how long each limit held; ``lost_ns`` how much shorter the work would have been at ``highest``,
    if its time follows the clock. Clocks are in MHz, power in W, energy in J.
    """

    device: int
    busy_ns: int
    clock: float
    highest: float
    limited_ns: Mapping[Limit, int]
    any_limit_ns: int
    limited_clock: float
    lost_ns: int
    spans: tuple[tuple[int, int], ...]
    power: float | None
    power_limit: float | None
    temperature: float | None
    energy: float | None
    memory_clock: float | None
    highest_memory_clock: float | None
    memory_errors: float
    xid: float

    @property
    def memory_is_slow(self) -> bool:
        """Whether the memory ran below its highest clock while the GPU worked."""
        if not self.memory_clock or not self.highest_memory_clock:
            return False
        return self.memory_clock < _FULL_CLOCK * self.highest_memory_clock

    @property
    def main(self) -> Limit | None:
        """The limit that held longest."""
        return max(self.limited_ns, key=lambda limit: self.limited_ns[limit], default=None)


def logged(trace: Trace, device: int) -> dict[str, Counter]:
    """The counters that a device log has of one device, by what they count."""
    logs: dict[int, dict[str, Counter]] = {}
    for counter in trace.counters:
        if match := _OF_GPU.match(counter.name):
            logs.setdefault(int(match[1]), {}).setdefault(match[2], counter)
    clocked = {gpu: log for gpu, log in logs.items() if _first(log, SM_CLOCKS) is not None}
    number = trace.devices[device].id
    alone = len(clocked) == 1 and len({each.id for each in trace.devices}) == 1
    return next(iter(clocked.values())) if alone else clocked.get(number, {})


def has_clocks(trace: Trace) -> bool:
    """Whether any device's clock was logged."""
    return any(_first(logged(trace, device), SM_CLOCKS) for device in range(len(trace.devices)))


def clock_facts(analysis: Analysis, device: int) -> ClockFacts | None:
    """What the log says of a device; None where it has no clock of it inside the window."""
    log = logged(analysis.trace, device)
    clock = _first(log, SM_CLOCKS)
    if clock is None or not len(clock.time):
        return None
    t0, t1 = analysis.window
    busy = clip(analysis.busy(device), t0, t1)
    weight = _worked(clock, busy, t0, t1)
    total = int(weight.sum())
    if not total:
        return None
    limits = {limit: held_share(log, limit, clock) for limit in Limit}
    limited = np.max(np.stack(list(limits.values())), axis=0)
    stated = log.get("maximum SM clock")
    highest = (
        float(stated.value.max()) if stated is not None and len(stated.value) else float(clock.value.max())
    )
    loss = np.clip(1.0 - clock.value / max(highest, 1.0), 0.0, 1.0)
    slow = limited > 0
    memory = _first(log, _MEMORY_CLOCKS)
    most = log.get("maximum memory clock")
    return ClockFacts(
        device,
        total,
        _mean(clock.value, weight),
        highest,
        {limit: held for limit, share in limits.items() if (held := int((share * weight).sum()))},
        int((limited * weight).sum()),
        _mean(clock.value[slow], (limited * weight)[slow]),
        int((limited * weight * loss).sum()),
        tuple(zip(*(side.tolist() for side in _spans(clock, slow & (weight > 0), t0, t1)), strict=True)),
        _highest(log.get("power"), t0, t1),
        _while_working(log.get("power limit"), busy, t0, t1),
        _while_working(log.get("temperature"), busy, t0, t1),
        _energy(log.get("power"), t0, t1),
        _while_working(memory, busy, t0, t1),
        float(most.value.max()) if most is not None and len(most.value) else None,
        _rise(log.get("uncorrected ECC errors")),
        _last(log.get("XID error")),
    )


def _first(log: Mapping[str, Counter], names: tuple[str, ...]) -> Counter | None:
    return next((log[name] for name in names if name in log), None)


def _ends(counter: Counter, t1: int) -> I64:
    """Where each value ceases to hold; the last one after the usual interval."""
    usual = int(median_of(np.diff(counter.time))) if len(counter.time) > 1 else t1
    last = min(int(counter.time[-1]) + usual, t1)
    return np.append(counter.time[1:], max(last, int(counter.time[-1])))


def _worked(counter: Counter, busy: Intervals, t0: int, t1: int) -> I64:
    """How long the device worked while each value held, ns."""
    start, end = (np.clip(each, t0, t1) for each in (counter.time, _ends(counter, t1)))
    return measure(busy, start, end)


def _mean(values: F64, weight: F64 | I64) -> float:
    total = float(np.sum(weight))
    return float(np.sum(values * weight) / total) if total > 0 else 0.0


def _while_working(counter: Counter | None, busy: Intervals, t0: int, t1: int) -> float | None:
    if counter is None or not len(counter.time):
        return None
    weight = _worked(counter, busy, t0, t1)
    return _mean(counter.value, weight) if weight.any() else None


def _highest(counter: Counter | None, t0: int, t1: int) -> float | None:
    """The highest value inside the window: readings of power are averages of the last second and lag behind."""
    if counter is None:
        return None
    inside = counter.value[(counter.time >= t0) & (counter.time < t1)]
    return float(inside.max()) if len(inside) else None


def held_share(log: Mapping[str, Counter], limit: Limit, clock: Counter) -> F64:
    """The part of the time, 0 to 1, for which a limit held at each reading of the clock."""
    found = np.zeros(len(clock.time))
    bits = log.get("clock limit reasons (bits)")
    if bits is not None and len(bits.time):
        read = _sampled(bits, clock.time)
        stated = np.where((read >= 0) & (read < _MAX_BITS), read, 0.0).astype(np.int64)
        found = np.maximum(found, (stated & limit.bit) != 0)
    for name in limit.counters:
        if (counter := log.get(name)) is not None and len(counter.time):
            value = _sampled(counter, clock.time)
            share = value / 100.0 if counter.unit == "%" else value > 0
            found = np.maximum(found, np.clip(share, 0.0, 1.0))
    return found


def _sampled(counter: Counter, times: I64) -> F64:
    """The values that hold at these times; 0 before the first."""
    place = np.searchsorted(counter.time, times, side="right") - 1
    return np.where(place >= 0, counter.value[np.maximum(place, 0)], 0.0)


def _spans(counter: Counter, chosen: BOOL, t0: int, t1: int) -> Intervals:
    """Where chosen values held, neighbours joined."""
    start, end = (np.clip(each, t0, t1) for each in (counter.time, _ends(counter, t1)))
    first = np.flatnonzero(chosen & ~np.append(False, chosen[:-1]))
    last = np.flatnonzero(chosen & ~np.append(chosen[1:], False))
    return start[first], end[last]


def _energy(power: Counter | None, t0: int, t1: int) -> float | None:
    if power is None or len(power.time) < 2:
        return None
    start, end = (np.clip(each, t0, t1) for each in (power.time, _ends(power, t1)))
    covered = int((end - start).sum())
    if covered * 2 < t1 - t0:
        return None
    return float((power.value * (end - start)).sum() / covered * (t1 - t0) / NS_PER_S)


def _rise(counter: Counter | None) -> float:
    return float(counter.value[-1] - counter.value[0]) if counter is not None and len(counter.value) else 0.0


def _last(counter: Counter | None) -> float:
    return float(counter.value.max()) if counter is not None and len(counter.value) else 0.0
