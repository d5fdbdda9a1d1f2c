"""What a log of GPUs tells where no timeline stands beside it: how busy they were, their power, clocks and limits."""

from __future__ import annotations

from parsers.model import Counter, Trace
from parsers.model.late import dataclass, regex
from parsers.model.units import NS_PER_S, duration, percent, size
from rules.analysis.logs.clocks import SM_CLOCKS, Limit, held_share

_OF_GPU = regex(r"([GN]PU \d{1,5}) (.+)$")
_LOADS = ("GPU utilization", "SM utilization", "graphics activity", "SM activity", "gfx activity")
NOTEWORTHY_LIMIT = 0.01  # of the time
# fewer, further apart than the seconds that each speaks of, say nothing of the time between them
MIN_READINGS = 10
MAX_APART_S = 60.0


@dataclass(frozen=True, slots=True)
class DeviceLog:
    """One GPU's log: means and largest values of what was logged, and the share of the time of its main limit."""

    gpu: str
    length_ns: int
    readings: int
    load: tuple[float, float] | None  # percent
    power: tuple[float, float] | None  # W
    clock: tuple[float, float] | None  # MHz
    limit: Limit | None
    limited: float
    # bytes: used at most, of so much, or of 0 where that is not known
    memory: tuple[float, float] | None = None

    @property
    def text(self) -> str:
        """ "GPU 0 over 15.8 s: busy 65 % of the time (at most 100 %), 492 W (at most 701 W), ..."."""
        if not self.length_ns:
            return self._at_one_moment
        parts = []
        if self.load is not None:
            mean, most = (percent(share / 100.0) for share in self.load)
            busy = f"{mean} busy on average" if self.is_rare else f"busy {mean} of the time"
            parts.append(f"{busy} (at most {most})")
        if self.power is not None:
            parts.append(f"{self.power[0]:.0f} W (at most {self.power[1]:.0f} W)")
        if self.clock is not None:
            parts.append(f"clock {self.clock[0]:.0f} MHz (at most {self.clock[1]:.0f} MHz)")
        if self.limit is not None:
            parts.append(f"slowed by {self.limit.words} {percent(self.limited)} of the time")
        if self.memory is not None:
            parts.append(f"at most {self._in_use}")
        when = f"at {self.readings} moments within" if self.is_rare else "over"
        return f"{self.gpu} {when} {duration(self.length_ns)}: {', '.join(parts)}"

    @property
    def is_rare(self) -> bool:
        """Whether nothing follows for most of the time, as from boxes that a script printed before its work."""
        apart = self.length_ns / max(self.readings - 1, 1)
        return self.readings < MIN_READINGS and apart > MAX_APART_S * NS_PER_S

    @property
    def _at_one_moment(self) -> str:
        parts = []
        if self.load is not None:
            parts.append(f"{percent(self.load[0] / 100.0)} busy")
        if self.power is not None:
            parts.append(f"{self.power[0]:.0f} W")
        if self.memory is not None:
            parts.append(self._in_use)
        return f"{self.gpu} at a single moment: {', '.join(parts)}"

    @property
    def _in_use(self) -> str:
        used, total = self.memory or (0.0, 0.0)
        return f"{size(used)} of {f'its {size(total)} of ' if total else ''}memory in use"


def device_logs(trace: Trace) -> tuple[DeviceLog, ...]:
    """The log of each GPU, in the order of the counters; none without a log."""
    counters: dict[str, dict[str, Counter]] = {}
    for counter in trace.counters:
        match = _OF_GPU.match(counter.name)
        if match and len(counter.value):
            counters.setdefault(match[1], {}).setdefault(match[2], counter)
    return tuple(
        _of(gpu, log) for gpu, log in counters.items() if any(name in log for name in (*_LOADS, "power"))
    )


def log_summary(trace: Trace) -> str:
    """One sentence on logs alone; empty without a log."""
    logs = device_logs(trace)
    if not logs:
        return ""
    if len(logs) == 1:
        return f"A log without a timeline: {logs[0].text}"
    loads = [log.load[0] for log in logs if log.load is not None]
    least, most = (percent(each(loads) / 100.0) if loads else "" for each in (min, max))
    kind = logs[0].gpu.partition(" ")[0]
    if any(log.is_rare for log in logs):
        return f"A few moments of {len(logs)} {kind}s without a timeline"
    if not any(log.length_ns for log in logs):
        return f"A single moment of {len(logs)} {kind}s without a timeline"
    busy = f", busy {least}{'' if least == most else f' to {most}'} of the time" if loads else ""
    return f"A log of {len(logs)} {kind}s without a timeline{busy}"


def _of(gpu: str, log: dict[str, Counter]) -> DeviceLog:
    clock = next((log[name] for name in SM_CLOCKS if name in log), None)
    any_counter = max(log.values(), key=lambda counter: len(counter.time))
    limits = {} if clock is None else {limit: float(held_share(log, limit, clock).mean()) for limit in Limit}
    worst = max(limits, key=lambda limit: limits[limit], default=None)
    limited = limits[worst] if worst is not None else 0.0
    return DeviceLog(
        gpu,
        int(any_counter.time[-1] - any_counter.time[0]),
        len(any_counter.time),
        _mean_and_most(next((log[name] for name in _LOADS if name in log), None)),
        _mean_and_most(log.get("power")),
        _mean_and_most(clock),
        worst if limited >= NOTEWORTHY_LIMIT else None,
        limited,
        _memory(log.get("framebuffer used"), log.get("framebuffer total")),
    )


def _memory(used: Counter | None, total: Counter | None) -> tuple[float, float] | None:
    """What was used at most, and how much there is, or 0; None where no use was logged in bytes."""
    if used is None or used.unit != "B" or not used.value.max() > 0:
        return None
    return float(used.value.max()), float(
        total.value.max()
    ) if total is not None and total.unit == "B" else 0.0


def _mean_and_most(counter: Counter | None) -> tuple[float, float] | None:
    return None if counter is None else (float(counter.value.mean()), float(counter.value.max()))
