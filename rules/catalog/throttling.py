"""The GPU is slower than it could be: limits of its clock, and other programs that use it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.devices import device_name
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import pairs, union
from rules.analysis.logs.clocks import ClockFacts, Limit, clock_facts
from rules.findings.base import Category, Evidence, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import any_stream
from rules.remedies.clocks import LOG_CLOCKS, higher_clock
from rules.replay.replay import replay_of
from rules.replay.turns import MIN_TURN_NS
from rules.terms import Culprit, CulpritKind, Unit, threshold
from rules.wording.words import Headline, of_every_step, ours, part_of_step, share

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


MIN_OF_OTHERS = threshold(
    "shared-gpu",
    "another program on the GPU is reported from this share of the analysed time",
    Unit.SHARE,
    0.03,
    least=0.001,
    most=0.9,
    source="less would not change the verdict",
)


@rule
class SharedGpu(Rule):
    id = "shared-gpu"
    category = Category.THROTTLING
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.API_CALLS})
    explanation = """
What it found
    Another program works on the same GPU. The GPU runs one of them at a time, for a millisecond or more each.

Why it costs time
    While the other program has its turn, nothing of this one runs: kernels that were launched wait, and those that run
    are stopped and take that much longer.

How it decides
    Kernels with the same launch and the same neighbours take about as long each time. If some of three or more
    different short ones take at least 1 ms longer than the quick ones like them, other programs had these turns. So
    they had the time of 1 ms and more for which a launched operation waited on an idle GPU. It is reported from
    {shared-gpu} of the step.

What to try
    Record on a GPU that nothing else uses; nvidia-smi lists the programs on each. Predictions are for a GPU of your
    own.

When it is wrong
    If the same kernels on tensors of the same sizes have very different work now and then.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        replay = replay_of(analysis)
        if replay.program is None:
            return
        device, others = replay.device, replay.others
        whole = np.bincount(device.device, others.waits + others.inside)
        number = int(whole.argmax()) if len(whole) else 0
        if not len(whole) or share(analysis, int(whole[number])) < analysis.thresholds[MIN_OF_OTHERS]:
            return
        mine = np.flatnonzero((device.device == number) & (others.waits + others.inside > 0))
        lane = any_stream(analysis.trace, number)
        starts, ends = (
            np.concatenate(edges).astype(np.int64)
            for edges in (
                ((device.start - others.waits)[mine], (device.end - others.inside)[mine]),
                (device.start[mine], device.end[mine]),
            )
        )
        spans = pairs(union(starts, ends))
        waits = int(others.waits[mine].sum())
        yield self.finding(
            analysis,
            headline=Headline(
                "Another program uses the GPU", of_every_step(analysis, share(analysis, int(whole[number])))
            ),
            account=(
                f"Another program has turns on {device_name(analysis.trace, number)}, which take "
                f"{part_of_step(analysis, int(whole[number]))}. Some kernels take at least {duration(MIN_TURN_NS)} "
                "longer than others like them, because they were stopped meanwhile; in "
                f"{percent(waits / float(whole[number]))} of these turns, work was launched and the GPU looks idle."
            ),
            remedy=remedy(
                ours("Record on a GPU that nothing else uses: $GpuMonitor lists the programs on each GPU."),
                "Predictions are for a GPU that this program has to itself.",
                code=ours("$GpuMonitor   # lists the programs on each GPU"),
            ),
            ceiling_ns=min(int(whole[number]), analysis.window_ns),
            culprit=Culprit(CulpritKind.COUNTER, f"GPU {analysis.trace.devices[number].id}"),
            rank=analysis.trace.devices[number].rank,
            device=number,
            evidence=tuple(
                Evidence(lane, start, end, "another program has its turn")
                for start, end in spans[:_MAX_EVIDENCE]
            ),
            intervals=spans,
            unknown=("Which program it is: a recording shows one alone.",),
            confidence="medium",
        )
