"""The GPU runs below its highest clock because of its power limit, its temperature or a slowdown of the hardware."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.names.devices import device_name
from parsers.model.units import percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.logs.clocks import ClockFacts, Limit, clock_facts
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import any_stream
from rules.remedies.clocks import LOG_CLOCKS, higher_clock
from rules.terms import Culprit, CulpritKind, Unit, threshold
from rules.wording.words import Headline, ours

MIN_LOST = threshold(
    "throttled",
    "throttling is reported from this share of the GPU's working time, as far as the lost clock shows",
    Unit.SHARE,
    0.03,
    least=0.005,
    most=0.5,
    source="clocks of a healthy GPU vary by 1 to 2 % between readings",
)
_MAX_EVIDENCE = 20
_THERMAL = (Limit.THERMAL, Limit.HW_THERMAL)


@rule
class Throttling(Rule):
    id = "throttling"
    category = Category.THROTTLING
    needs = frozenset({Need.GPU_EVENTS, Need.CLOCKS})
    explanation = """
What it found
    While the GPU worked, a limit held its clock below the highest one: power, temperature, a slowdown requested by
    the hardware, or a setting.

Why it costs time
    Kernels that compute take longer in proportion to the lost clock. No timeline shows it: every kernel is just
    slower. In a group of GPUs, the others wait for the slowest.

How it decides
    From a device log of the same time: the readings at which a limit was active, weighted by how long the GPU worked
    while they held, and their clock relative to the highest (the log's clocks.max.sm, or the highest reading). It is
    reported when that would be at least {throttled} of the GPU's working time. Memory that runs below its highest
    clock, memory errors and XIDs are reported if they are logged.

What to try
    Against a power limit: types with fewer bits, less data moved, a higher limit if it was lowered. Against heat:
    cooling. Then compare runs at the same clock.

When it is wrong
    Kernels that wait for memory hardly follow this clock, so the gain can be smaller. A log is sampled several times
    a second at most, and its clock may be off by a second from the recording.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        found = [
            facts
            for device in analysis.active_devices
            if (facts := clock_facts(analysis, device)) is not None
        ]
        slowed = [
            facts
            for facts in found
            if facts.main is not None and facts.lost_ns >= analysis.thresholds[MIN_LOST] * facts.busy_ns
        ]
        if slowed:
            yield self._slowed(
                analysis, max(slowed, key=lambda facts: facts.lost_ns), len(slowed), len(found)
            )
        slow_memory = [facts for facts in found if facts.memory_is_slow and facts not in slowed]
        if slow_memory:
            yield self._memory(analysis, slow_memory[0])
        for facts in found:
            if facts.memory_errors > 0 or facts.xid > 0:
                yield self._errors(analysis, facts)

    def _slowed(self, analysis: Analysis, facts: ClockFacts, slowed: int, of: int) -> Finding:
        trace, main = analysis.trace, facts.main
        assert main is not None
        lane = any_stream(trace, facts.device)
        ceiling = min(facts.lost_ns, analysis.window_ns)
        text = (
            f"{device_name(trace, facts.device)} ran at about {facts.limited_clock:.0f} of {facts.highest:.0f} MHz "
            f"because of {main.words} for {percent(facts.any_limit_ns / facts.busy_ns)} of the time it worked."
        )
        if main is Limit.POWER and facts.power and facts.power_limit:
            text += f" It drew up to {facts.power:,.0f} of {facts.power_limit:,.0f} W."
        if main in _THERMAL and facts.temperature:
            text += f" It was at {facts.temperature:,.0f} C."
        if of > 1:
            text += (
                f" {slowed} of {of} GPUs are slowed, this one the most."
                if slowed > 1
                else " The other GPUs are not."
            )
        text += _energy(analysis, facts)
        if facts.memory_is_slow:
            text += f" The memory ran at {facts.memory_clock:.0f} of {facts.highest_memory_clock:.0f} MHz."
        return self.finding(
            analysis,
            headline=Headline(
                f"The GPU is slowed by {main.words}", f"{facts.limited_clock:.0f} of {facts.highest:.0f} MHz"
            ),
            account=text,
            remedy=higher_clock(main),
            ceiling_ns=ceiling,
            culprit=Culprit(CulpritKind.COUNTER, f"GPU {trace.devices[facts.device].id} SM clock"),
            rank=trace.devices[facts.device].rank,
            device=facts.device,
            evidence=tuple(
                Evidence(lane, start, end, f"slowed by {main.words}")
                for start, end in facts.spans[:_MAX_EVIDENCE]
            ),
            intervals=facts.spans,
            unknown=(
                "How much your kernels are affected: those that wait for memory hardly follow this clock.",
            ),
            confidence="medium",
        )

    def _memory(self, analysis: Analysis, facts: ClockFacts) -> Finding:
        trace = analysis.trace
        clocks = f"{facts.memory_clock:.0f} of {facts.highest_memory_clock:.0f} MHz"
        return self.finding(
            analysis,
            headline=Headline("The GPU's memory runs below its highest clock", clocks),
            account=(
                f"The memory of {device_name(trace, facts.device)} ran at {clocks} while the GPU worked. Kernels "
                "that wait for memory take proportionally longer."
            ),
            remedy=remedy(
                ours("Reset the memory clocks ($ResetMemoryClocks), unless somebody set them on purpose."),
                code=LOG_CLOCKS,
            ),
            culprit=Culprit(CulpritKind.COUNTER, f"GPU {trace.devices[facts.device].id} memory clock"),
            rank=trace.devices[facts.device].rank,
            device=facts.device,
            unknown=("Why: clock logs give reasons only for the SM clock.",),
        )

    def _errors(self, analysis: Analysis, facts: ClockFacts) -> Finding:
        what = [f"{facts.memory_errors:,.0f} uncorrected memory errors"] if facts.memory_errors > 0 else []
        what += [f"XID {facts.xid:.0f}"] if facts.xid > 0 else []
        trace = analysis.trace
        return self.finding(
            analysis,
            headline=Headline("The GPU reports errors", " and ".join(what)),
            account=(
                f"The log of {device_name(trace, facts.device)} reports {' and '.join(what)} in this time."
            ),
            remedy=remedy(
                "Check the kernel log (dmesg) for the error, and have the GPU checked before you trust results.",
                code=LOG_CLOCKS,
            ),
            culprit=Culprit(CulpritKind.COUNTER, f"GPU {trace.devices[facts.device].id}"),
            rank=trace.devices[facts.device].rank,
            device=facts.device,
        )


def _energy(analysis: Analysis, facts: ClockFacts) -> str:
    """What the window cost in energy, by step where there are steps."""
    if facts.energy is None or analysis.window_ns <= 0:
        return ""
    watts = facts.energy / analysis.window_ns * 1e9
    steps = analysis.steps_in_window
    per = (
        f"{three_digits(facts.energy / steps)} J a step"
        if steps
        else f"{three_digits(facts.energy)} J in all"
    )
    return f" Energy: {per} ({watts:,.0f} W on average)."
