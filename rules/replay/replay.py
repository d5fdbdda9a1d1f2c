"""The replay of a recording: how well it reproduces it, and how long a step takes if something is different."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from parsers.model import BOOL, F64, I64, EventKind, Trace, derived
from parsers.model.late import dataclass
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import length, subtract, union
from rules.analysis.idle.attribution import migrations
from rules.analysis.recording.subject import SubjectKind, subject_of
from rules.analysis.steps.first_use import repeats
from rules.replay.chance import by_chance
from rules.replay.device import DeviceNodes, device_nodes
from rules.replay.host import HostNodes, host_nodes
from rules.replay.overlay import Overlay
from rules.replay.program import NoOrder, Program, Run
from rules.replay.recorder import RecorderTime, recorder_time
from rules.replay.spans import Span, spans_of
from rules.replay.turns import UNEXPLAINED_NS, Turns, turns_of
from rules.replay.waits import Waits, waits_of

WITHOUT_TIMES = "the GPU's activities were recorded without times"
MAX_ERROR = 0.05
# of the GPU's operations: without their launches nothing is known of what they waited for
MIN_LINKED = 0.95
MIN_OPERATIONS = 20
# a launch onto an idle stream and the shortest kernel: no step is over sooner (docs/predictions.md)
MIN_STEP_NS = 8_000.0

Change = Callable[[Overlay], None]


@dataclass(frozen=True, eq=False)
class Replay:
    """A compiled recording; ``reason`` is empty where predictions can be made.

    Times are ns for one step, on the scale of the analysed ones: replayed as they were recorded, they take ``mean_ns``,
    so that a predicted step can stand beside every figure that is counted in the recording.
    """

    analysis: Analysis
    program: Program | None
    reason: str = ""

    @property
    def ready(self) -> Program:
        """The program; only for a replay without a ``reason``."""
        if self.program is None:
            raise ValueError(self.reason)
        return self.program

    @property
    def host(self) -> HostNodes:
        return self.ready.host

    @property
    def device(self) -> DeviceNodes:
        return self.ready.device

    @property
    def waits(self) -> Waits:
        return self.ready.waits

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.ready.spans

    @property
    def steps(self) -> int:
        """Replayed steps of one rank."""
        return max((span.count for span in self.spans), default=0) if self.program else 0

    @property
    def in_step(self) -> str:
        """ "in a step", or "in the recording" where no steps were found."""
        return "in a step" if any(span.numbers for span in self.spans) else "in the recording"

    @property
    def is_annotated(self) -> bool:
        """Whether the program says itself where its steps begin."""
        steps = self.analysis.steps
        return bool(len(steps)) and all(step.event >= 0 for step in steps)

    @cached_property
    def recorded(self) -> Overlay:
        return self.ready.recorded()

    @cached_property
    def typical(self) -> Overlay:
        """As recorded, but for what was slow by chance: steps, operators on the CPU, a GPU that others used as well.

        Mostly nothing was.
        """
        gap, cost = by_chance(self.analysis, self.host, self.recorded.cost)
        if not (gap.any() or cost.any() or self.others.total_ns):
            return self.recorded
        overlay = self.recorded.copy()
        overlay.extra -= self.others.waits
        overlay.duration -= self.others.inside
        overlay.gap -= gap
        overlay.cost -= cost
        return overlay

    @cached_property
    def others(self) -> Turns:
        """When other programs had the GPU."""
        return turns_of(self.analysis.trace, self.device)

    @cached_property
    def usual(self) -> Overlay:
        """Without what the recorder cost: as users run it."""
        overlay = self.typical.copy()
        recorder = self._recorder
        overlay.gap -= recorder.gap
        overlay.cost -= recorder.cost
        overlay.tail -= recorder.tail
        return overlay

    @cached_property
    def _recorder(self) -> RecorderTime:
        return recorder_time(self.analysis, self.spans, self.host, self.typical)

    @cached_property
    def host_with_half_the_frames(self) -> float:
        """How many times as long the CPU takes if writing down Python's frames took half of what it is taken to."""
        left = sum(float(column.sum()) for column in (self.usual.gap, self.usual.cost, self.usual.tail))
        return 1.0 + 0.5 * self._recorder.frames / max(left, 1.0)

    @cached_property
    def error(self) -> float:
        """By how much the replay of the unchanged recording misses its length, as a part of it.

        The larger of two: the first round's end against the recorded one, where waits of unknown cause are left out.
        """
        program, found = self.ready, 0.0
        for number, span in enumerate(program.spans):
            mine = program.device.span == number
            end = max(span.end, int(program.device.end[mine].max()) if mine.any() else span.end)
            held = (program.device.extra - self.others.waits)[mine]
            unexplained = float(np.maximum(held - UNEXPLAINED_NS, 0.0).sum())
            missed = abs(float(self._as_recorded.first_end[number]) - end) + unexplained
            found = max(found, missed / max(end - span.start, 1))
        return found

    @cached_property
    def _as_recorded(self) -> Run:
        return self.ready.run(self.recorded, timeline=False)

    @property
    def mean_ns(self) -> float:
        """The mean steady step, as it was recorded."""
        return self.analysis.window_ns / max(self.analysis.steps_in_window, 1)

    @cached_property
    def scale(self) -> float:
        """How long a recorded step is beside a replayed one, which begins anew as soon as the last one has ended."""
        return self.mean_ns / _step_of(self._as_recorded, self.recorded)

    @cached_property
    def recorded_ns(self) -> float:
        """A typical step as recorded: the mean one, unless some were slow by chance."""
        if self.typical is self.recorded:
            return self.step_of(self._as_recorded, self.recorded)
        return self._period(self.typical)

    @property
    def is_mean(self) -> bool:
        """Whether a typical step reads as the mean one: none was so slow by chance that it tells."""
        return duration(round(self.recorded_ns)) == duration(round(self.mean_ns))

    @cached_property
    def usual_ns(self) -> float:
        """A step without the recorder."""
        return self.time()

    @property
    def recorder_share(self) -> float:
        """The part of a recorded step that is the recorder's."""
        return max(0.0, 1.0 - self.usual_ns / self.recorded_ns) if self.recorded_ns else 0.0

    def overlay(self, changes: Sequence[Change] = (), host: float = 1.0) -> Overlay:
        """The columns after some changes, in this order, on a CPU that takes ``host`` times as long for everything."""
        overlay = self._changed(self.usual, changes)
        if host != 1.0:
            for column in (overlay.gap, overlay.cost, overlay.tail):
                column *= host
        return overlay

    def run(self, changes: Sequence[Change] = ()) -> tuple[Overlay, Run]:
        """The replay after some changes."""
        overlay = self.overlay(changes)
        return overlay, self.ready.run(overlay)

    @cached_property
    def unchanged(self) -> tuple[Overlay, Run]:
        """The replay without a change and without the recorder's cost."""
        return self.run()

    def time(self, changes: Sequence[Change] = (), host: float = 1.0) -> float:
        """A step after some changes, ns; ``host`` as for ``overlay``."""
        return self._period(self.overlay(changes, host))

    def leaves_gpu_work(self, changes: Sequence[Change]) -> bool:
        """Whether some changes leave all that the GPU does as long as it is."""
        before, after = self.usual, self.overlay(changes)
        return after.steps == before.steps and _alike(
            before, after, ("duration", "present", "transfer", "meets")
        )

    def leaves_host(self, changes: Sequence[Change]) -> bool:
        """Whether some changes leave what the CPU does, what it waits for, and in which order all runs."""
        return _alike(self.usual, self.overlay(changes), ("gap", "cost", "tail", "waits", "follows"))

    def leaves_host_time(self, changes: Sequence[Change]) -> bool:
        """Whether some changes leave the time that the CPU spends between its calls."""
        return _alike(self.usual, self.overlay(changes), ("gap", "tail"))

    def gpu_work(self, changes: Sequence[Change] = ()) -> float:
        """What some changes leave to do in a step for the GPU that has most to do, ns; no step is shorter."""
        return self._gpu_work_of(self.overlay(changes))

    def left_of(self, changes: Sequence[Change]) -> tuple[float, float]:
        """What is left of a step if all that any of some changes shortens took no time, ns.

        ``changes`` are alternatives. The GPU's work, and the step as long as nothing else in it changes; (0, 0) where
        one of them says how long something else than operations takes.
        """
        before, overlay = self.usual, self.usual.copy()
        for change in changes:
            after = self.overlay([change])
            if after.steps != before.steps or not _alike(before, after, ("transfer", "meets")):
                return 0.0, 0.0
            overlay.present &= after.present & (after.duration >= before.duration)
        gone = before.duration * (before.present & ~overlay.present)
        # summed over all GPUs: which of them the others wait for changes from step to step
        saved = self.scale * float(gone.sum()) / before.steps
        return self._gpu_work_of(overlay), self.usual_ns - saved

    @cached_property
    def host_work_ns(self) -> float:
        """What the thread that does most of it does in a step, without waiting for the GPU, ns."""
        work = np.bincount(self.host.thread, self.usual.gap + self.usual.cost, minlength=self.host.threads)
        return self.scale * float(np.max(work + self.usual.tail, initial=0.0)) / self.usual.steps

    def taken(self, changes: Sequence[Change]) -> float:
        """How much of a recorded step passes in calls and operations that some changes end or shorten, ns.

        Without what the GPU keeps doing meanwhile. Infinite where there are several ranks, or where collectives or what
        waits for what become others.
        """
        before, after = self.usual, self.overlay(changes)
        alike = _alike(before, after, ("transfer", "meets", "extra", "follows"))
        if len(self.spans) > 1 or after.steps != before.steps or not alike:
            return np.inf
        host, device = self.host, self.device
        shorter = (after.duration * after.present) < before.duration * before.present
        waits = before.waits & (~after.waits | shorter[np.maximum(self.waits.target, 0)])
        calls = waits | (after.cost < before.cost)
        start = np.concatenate((host.start[calls], device.start[shorter]))
        end = np.concatenate((host.end[calls], device.end[shorter]))
        gone = subtract(union(start, end), union(device.start[~shorter], device.end[~shorter]))
        return self.scale * length(gone) / before.steps

    def _gpu_work_of(self, overlay: Overlay) -> float:
        return self._busy_of(self.ready.busy(overlay), overlay)

    def _busy_of(self, busy: float, overlay: Overlay) -> float:
        """What a GPU has to do in a step that is ``busy`` for so long in all that is replayed (ns)."""
        return self._more_work * self.scale * busy / max(overlay.steps, 1e-9)

    @cached_property
    def _more_work(self) -> float:
        """How much more a GPU computes in a step on average than in the replayed ones; 1 where it is no more."""
        device, recorded = self.device, self.recorded
        alone = recorded.duration * recorded.present * device.alone * recorded.turns
        kernels = (self.scale * np.bincount(device.device, alone) / max(recorded.steps, 1e-9)).tolist()
        more = 1.0
        for span in self.spans:
            for number in span.devices if span.numbers else ():
                mean = self.analysis.budgets(number).compute_ns / max(self.analysis.steps_in_window, 1)
                more = (
                    max(more, mean / kernels[number]) if number < len(kernels) and kernels[number] else more
                )
        return more

    def limit(self, gpu_work: float) -> float:
        """How many times faster than recorded a step is at most while the GPU has so much to do (ns) in it."""
        return self.recorded_ns / max(gpu_work, self.scale * MIN_STEP_NS)

    def gain(self, changes: Sequence[Change], host: float = 1.0) -> float:
        """How many times faster a step becomes; ``host`` as for ``overlay``."""
        return (self.usual_ns if host == 1.0 else self._before(host)) / self.time(changes, host)

    def gain_recorded(self, changes: Sequence[Change]) -> float:
        """How many times faster a step becomes that is recorded in the same way."""
        return self.recorded_ns / self._period(self._changed(self.typical, changes))

    def _changed(self, before: Overlay, changes: Sequence[Change]) -> Overlay:
        """The columns after some changes.

        Of the time after a thread's last call as much is left as of the same time in the steps before, which lies
        before the first call of the step that follows. Of a change that says what becomes of it, that counts.
        """
        overlay = before.copy()
        if not changes:
            return overlay
        first = self._first_in_step
        told = np.zeros(int(first.sum()))
        for change in changes:
            tail, gap = overlay.tail.copy(), overlay.gap[first]
            change(overlay)
            if not np.array_equal(overlay.tail, tail):
                told += gap - overlay.gap[first]
        thread, earlier = self.host.thread[first], self.of_step_before[first] * before.gap[first]
        gone = before.gap[first] - overlay.gap[first] - told - (before.gap[first] - earlier)
        whole = np.bincount(thread, earlier, minlength=self.host.threads)
        of_thread = np.bincount(thread, np.clip(gone, 0.0, earlier), minlength=self.host.threads)
        overlay.tail *= 1.0 - of_thread / np.maximum(whole, 1.0)
        return overlay

    @cached_property
    def _first_in_step(self) -> BOOL:
        """Which calls are the first of a step that follows another."""
        return np.append(False, np.diff(self.host.step) == 1)

    @cached_property
    def of_step_before(self) -> F64:
        """Which part of the time before each call passed in the step before."""
        begin = np.zeros(len(self.host))
        for number, span in enumerate(self.spans):
            mine = self.host.span_of_thread[self.host.thread] == number
            begin[mine] = span.edges[self.host.step[mine]]
        earlier = np.clip(begin - (self.host.start - self.host.gap), 0.0, self.host.gap)
        return np.asarray(earlier / np.maximum(self.host.gap, 1.0))

    def step_of(self, run: Run, overlay: Overlay) -> float:
        """A step of a replay, ns: finite, and never less than its GPU's work or ``MIN_STEP_NS``."""
        repeated = max(self.scale * _step_of(run, overlay), self._busy_of(run.busy, overlay))
        return max(repeated, self._single_pass(run))

    def _single_pass(self, run: Run) -> float:
        """How long the recording takes where nothing repeats, ns: its end hides nothing of a beginning; 0 with steps.

        Of a program that is repeated, the CPU would begin anew while the GPU still works.
        """
        if any(span.numbers for span in self.spans):
            return 0.0
        start = np.array([span.start for span in self.spans], np.float64)
        took, recorded = (float((each.first_end - start).max()) for each in (run, self._as_recorded))
        return self.mean_ns * took / max(recorded, 1.0)

    def _period(self, overlay: Overlay) -> float:
        return self.step_of(self.ready.run(overlay, timeline=False), overlay)

    def _before(self, host: float) -> float:
        """A step on a faster or slower CPU without a change, computed once for each."""
        if host not in self._on_other_hosts:
            self._on_other_hosts[host] = self.time(host=host)
        return self._on_other_hosts[host]

    @cached_property
    def _on_other_hosts(self) -> dict[float, float]:
        return {}


def _alike(before: Overlay, after: Overlay, columns: Sequence[str]) -> bool:
    return all(np.array_equal(getattr(before, column), getattr(after, column)) for column in columns)


def _step_of(run: Run, overlay: Overlay) -> float:
    return max(run.period / max(overlay.steps, 1e-9), MIN_STEP_NS)


def _linked(trace: Trace, operations: I64) -> float:
    return float(np.mean(trace.links.launch_of(operations) >= 0)) if len(operations) else 0.0


@derived
def replay_of(analysis: Analysis) -> Replay:
    """The replay of a recording; made once."""
    return _made(analysis)


def _made(analysis: Analysis) -> Replay:
    trace = analysis.trace
    operations = trace.gpu_operations
    if not len(operations):
        untimed = trace.quality.gpu_work_without_times
        return Replay(analysis, None, WITHOUT_TIMES if untimed else "no timeline of a GPU was recorded")
    if (subject := subject_of(analysis)) is not None:
        mixed = subject.kind is SubjectKind.OTHER_UNIT
        why = (
            "parts of the recording are in different units of time"
            if mixed
            else "the recording does not contain a complete run"
        )
        return Replay(analysis, None, why)
    if EventKind.API not in trace.kinds or not len(trace.links.operation):
        return Replay(analysis, None, "the recording does not say which call launched which GPU operation")
    t0, t1 = analysis.window
    inside = operations[(trace.events.start[operations] >= t0) & (trace.events.start[operations] < t1)]
    linked = _linked(trace, inside)
    if linked < MIN_LINKED:
        launched = inside[~migrations(trace)[trace.events.name[inside]]]
        why = (
            "pages of unified memory move, which no call launches"
            if _linked(trace, launched) >= MIN_LINKED
            else f"only {percent(linked)} of the GPU's operations are linked to their launch"
        )
        return Replay(analysis, None, why)
    spans = spans_of(analysis)
    host = host_nodes(analysis, spans)
    if not len(host) or any(span not in host.span_of_thread for span in range(len(spans))):
        return Replay(analysis, None, "no step with its launches was recorded as a whole")
    device = device_nodes(analysis, spans, host)
    if len(device.members) < MIN_OPERATIONS:
        return Replay(analysis, None, "too few GPU operations were recorded to replay them")
    if not any(span.numbers for span in spans) and not repeats(trace, inside):
        return Replay(analysis, None, "hardly anything in the recording repeats")
    try:
        program = Program.of(spans, host, device, waits_of(analysis, host, device))
    except NoOrder:
        return Replay(analysis, None, "the recorded times of CPU, GPU or ranks contradict one another")
    replay = Replay(analysis, program)
    if replay.error > MAX_ERROR:
        return Replay(analysis, program, f"the replay misses the recorded time by {percent(replay.error)}")
    return replay
