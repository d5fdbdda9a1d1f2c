"""What was read, repaired and quarantined, and why: nothing is lost silently."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum

import numpy as np

from parsers.model.arrays import BOOL
from parsers.model.late import dataclass

PREVIEW = "preview"  # the kind of the note that marks a trace of the first events only
KERNEL_COUNTERS = "kernel-counters"  # that of the note that counts kernels with counters and without times
BETWEEN_EVENTS = "between-events"  # that of the note that GPU times include waiting for the CPU
ONE_BY_ONE = "one-by-one"  # that of the note that kernels ran alone, for their counters
RAN_ONE_BY_ONE = (
    "Counters were collected: the profiler ran each kernel alone, maybe several times, so the time between kernels is "
    "its own"
)
GPU_OPERATORS = "gpu-operators"  # that of the note that counts operators of a GPU whose work was not recorded
IN_ROWS = "operators-in-rows"  # that of the note that counts operators of timelines whose rows are no threads
FEW_SAMPLES = "few-samples"  # that of the note that counts the samples of a profile, where they are that few
MIN_SAMPLES = 10  # of a profile: of fewer, each is more than a tenth of the time
WITHOUT_TIMES = (
    "counted"  # that of the note that samples state no times: what is drawn is as long as was assumed
)
OF_OPERATORS = "operators"  # that of the note that what is drawn as samples are times of PyTorch's operators
MISSING_BEFORE = "missing-before"  # that of the note that counts operations before which others are missing
GPU_WITHOUT_TIMES = "gpu-without-times"  # that of the note that counts GPU activities without times


class Effect(Enum):
    """What happened to the events a note counts."""

    REPAIRED = "repaired"
    QUARANTINED = "quarantined"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class QualityNote:
    """One kind of oddity: how often, what was done, one example with its place in the file."""

    kind: str
    count: int
    effect: Effect
    reason: str
    example: str = ""


@dataclass(frozen=True, slots=True)
class Quality:
    """The loss account of one trace; ``events_read == events_kept + quarantined``."""

    events_read: int = 0
    events_kept: int = 0
    notes: tuple[QualityNote, ...] = ()

    @property
    def of_preview(self) -> bool:
        """Whether only the first events of the recording were read."""
        return any(note.kind == PREVIEW for note in self.notes)

    @property
    def kernels_without_times(self) -> int:
        """Kernels that ran, of which hardware counters were recorded and no times."""
        return self._count_of(KERNEL_COUNTERS)

    @property
    def gpu_work_without_times(self) -> int:
        """GPU activities that ran and that the profiler recorded with neither a start nor a duration."""
        return self._count_of(GPU_WITHOUT_TIMES)

    @property
    def operations_missing_before(self) -> int:
        """GPU operations that waited less than the time since the one before: others ran there, which are missing."""
        return self._count_of(MISSING_BEFORE)

    @property
    def operators_of_an_unrecorded_gpu(self) -> int:
        """Operators that the CPU started on a GPU of which nothing was recorded."""
        return self._count_of(GPU_OPERATORS)

    @property
    def operators_lie_in_rows(self) -> bool:
        """Whether operators that ran at once lie in rows beside one another, which are no threads."""
        return self._count_of(IN_ROWS) > 0

    @property
    def gpu_times_include_waiting(self) -> bool:
        """Whether the GPU was timed between events around each operator, its launch included."""
        return self._count_of(BETWEEN_EVENTS) > 0

    @property
    def kernels_ran_one_by_one(self) -> bool:
        """Whether the profiler ran each kernel alone to read its counters: what lies between them is the profiler's."""
        return self._count_of(ONE_BY_ONE) > 0

    def _count_of(self, kind: str) -> int:
        return sum(note.count for note in self.notes if note.kind == kind)

    @property
    def repaired(self) -> int:
        return sum(note.count for note in self.notes if note.effect is Effect.REPAIRED)

    @property
    def quarantined(self) -> int:
        return sum(note.count for note in self.notes if note.effect is Effect.QUARANTINED)

    @staticmethod
    def merged(parts: Iterable[Quality]) -> Quality:
        """The sum of several files' accounts; notes of one kind are added up."""
        recorder = QualityRecorder()
        for part in parts:
            recorder.read(part.events_read)
            recorder.keep(part.events_kept)
            for note in part.notes:
                recorder.note(note.kind, note.effect, note.reason, note.example, note.count)
        return recorder.quality()


@dataclass(slots=True)
class QualityRecorder:
    """Collects notes while a file is read."""

    _read: int = 0
    _kept: int = 0
    _notes: dict[tuple[str, Effect], QualityNote] = field(default_factory=dict)

    def read(self, count: int) -> None:
        self._read += count

    def keep(self, count: int) -> None:
        self._kept += count

    def note(self, kind: str, effect: Effect, reason: str, example: str = "", count: int = 1) -> None:
        """Add ``count`` occurrences of ``kind``; the first example is the one that stays."""
        if count <= 0:
            return
        before = self._notes.get((kind, effect))
        if before is not None:
            count, reason, example = before.count + count, before.reason, before.example or example
        self._notes[kind, effect] = QualityNote(kind, count, effect, reason, example[:200])

    def cut(self, damage: str, kept: str = "") -> None:
        """Note why a file ends before its end, if it does; ``kept`` says what is done with what comes before."""
        if damage:
            self.note("cut", Effect.NOTED, f"the file is cut off or damaged{kept}", damage)

    def read_times(self, good: BOOL, where: Callable[[int], str]) -> None:
        """Count rows, and those that are left out for their times; ``where`` names the row with an index."""
        self.read(len(good))
        bad = np.flatnonzero(~good)
        reason = "Rows without a start, or that end before it, were left out."
        example = where(int(bad[0])) if len(bad) else ""
        self.note("impossible time", Effect.QUARANTINED, reason, example, len(bad))

    def quality(self) -> Quality:
        return Quality(self._read, self._kept, tuple(self._notes.values()))
