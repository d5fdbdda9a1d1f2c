"""The launches of Nsight Compute's binary report, one after the other up to any damage."""

from __future__ import annotations

from typing import IO

from parsers.files.base import Source
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import UnpackingLimit
from parsers.model.builder import TraceBuilder
from parsers.model.errors import Malformed, TraceError
from parsers.model.kernels import KernelProfile
from parsers.model.lanes import TraceInput
from parsers.model.late import regex
from parsers.model.progress import Progress
from parsers.model.quality import Effect, QualityRecorder
from parsers.model.trace import Trace
from parsers.ncu.blocks import MAX_STRINGS, UNPACKING_ERRORS, Block, Session, read_blocks
from parsers.ncu.instructions import Code
from parsers.ncu.results import Result, read_group, read_result
from parsers.protobuf.wire import Damaged

_OPTION = regex(r"--(clock-control|cache-control|replay-mode)[= ](\S+)")
_LAUNCHES_AT_ONCE = 256
_FREE_LAUNCHES = 10_000
_MIN_LAUNCH_BYTES = 64  # packed; the smallest of real reports takes some hundred
_MAX_LAUNCHES = 500_000
_FREE_INSTRUCTIONS = 500_000
_MIN_INSTRUCTION_BYTES = 8  # packed: each is in some dozens of metrics
_MAX_INSTRUCTIONS = 4_000_000
_REMARKS = {
    (
        "clock-control",
        "none",
    ): "The clocks were not fixed while profiling: durations vary with the GPU's boost.",
    ("cache-control", "none"): "The caches were not flushed between passes: later passes see warm caches.",
    ("replay-mode", "application"): "The program ran once for each pass: runs that differ mix in one result.",
    ("replay-mode", "range"): "Ranges of kernels were measured together, not single launches.",
}


def read_report(source: Source, format: str, progress: Progress) -> Trace:
    """The trace of a report; raises ``TraceError`` where no launch can be used."""
    session = Session()
    builder = TraceBuilder()
    try:
        with open_bytes(source) as stream:
            reading = _Reading(source, builder.quality, session)
            reading.all_blocks(stream, progress)
    except OSError as error:
        raise Malformed(source.path, "The file cannot be read.", "Copy it again.") from error
    kernels = reading.profiles()
    if not kernels:
        raise reading.failure()
    builder.kernels = kernels
    builder.quality.read(len(kernels) + reading.lost)
    builder.quality.keep(len(kernels))
    builder.inputs.append(TraceInput(str(source.path), format, _producer(session)))
    for option in _OPTION.findall(session.profiler_command):
        if remark := _REMARKS.get(option):
            builder.quality.note(f"profiler-{option[0]}", Effect.NOTED, remark, f"--{option[0]} {option[1]}")
    return builder.build(progress)


class _Reading:
    """Collects results block by block, keeping what comes before any damage."""

    def __init__(self, source: Source, quality: QualityRecorder, session: Session) -> None:
        self._source = source
        self._quality = quality
        self._session = session
        self._names: list[str] = []
        self._results: list[tuple[Result, int | None, str]] = []
        self._code = Code()
        self._process: tuple[int | None, str] = (None, "")
        self._budget = UnpackingLimit(source)
        self._damage = ""
        self._place = ""
        self.lost = 0

    def all_blocks(self, stream: IO[bytes], progress: Progress) -> None:
        try:
            for block in read_blocks(stream, self._session, self._budget.add):
                self._take(block, progress)
                progress.step(self._budget.share * 0.9, f"reading launch {len(self._results)}")
        except (Damaged, *UNPACKING_ERRORS) as error:
            self._damaged(str(error))
        self._note_damage()

    def _take(self, block: Block, progress: Progress) -> None:
        self._names += block.strings
        self._budget.make("names", len(block.strings), MAX_STRINGS, 1, MAX_STRINGS)
        for pid, name in block.processes.items():
            self._process = (pid, name)
        read = 0
        expected = block.measured
        try:
            for kind, data in block.messages():
                if kind == "source":
                    self._take_code(data)
                    continue
                read += 1
                if read % _LAUNCHES_AT_ONCE == 0:
                    progress.step(self._budget.share * 0.9, f"reading launch {len(self._results)}")
                if not data:
                    self.lost += 1
                    self._damaged("a launch is empty")
                    continue
                self._budget.make("launches", 1, _FREE_LAUNCHES, _MIN_LAUNCH_BYTES, _MAX_LAUNCHES)
                result = (
                    read_result(data, self._names)
                    if kind == "launch"
                    else read_group(data, kind, self._names)
                )
                self._results.append((result, *self._process))
        except Damaged as error:
            self.lost += max(expected - read, 0) + (1 if read > 0 else 0)
            self._damaged(str(error))

    def _take_code(self, data: memoryview) -> None:
        self._budget.make("pieces of code", 1, _FREE_LAUNCHES, _MIN_LAUNCH_BYTES, _MAX_LAUNCHES)
        try:
            self._code.take(data)
        except Damaged:
            self._quality.note(
                "damaged-code", Effect.NOTED, "The code of a kernel could not be read.", "its source page"
            )

    def _damaged(self, reason: str) -> None:
        self._damage = self._damage or reason
        self._place = self._place or f"after launch {len(self._results)}"

    def _note_damage(self) -> None:
        if self._damage:
            self._quality.note(
                "damaged-report",
                Effect.QUARANTINED if self.lost else Effect.NOTED,
                f"The report is damaged ({self._damage}); what could be read was kept.",
                self._place,
                max(self.lost, 1),
            )

    def profiles(self) -> list[KernelProfile]:
        profiles = []
        for number, (result, process, process_name) in enumerate(self._results):
            profile = result.build(
                str(number), self._names, process, process_name, self._session.device_names, self._code
            )
            if profile.source is not None:
                self._budget.make(
                    "instructions",
                    len(profile.source.address),
                    _FREE_INSTRUCTIONS,
                    _MIN_INSTRUCTION_BYTES,
                    _MAX_INSTRUCTIONS,
                )
            profiles.append(profile)
            self._quality.note(
                "damaged-metric",
                Effect.NOTED,
                "Parts of a launch could not be read.",
                f"launch {number}",
                result.damaged_parts,
            )
        return profiles

    def failure(self) -> TraceError:
        path = self._source.path
        if self._damage:
            return Malformed(
                path, f"The report is damaged before its first launch ({self._damage}).", "Copy it again."
            )
        return TraceError(path, "The report holds no profiled kernel.", "Record again; see what ncu printed.")


def _producer(session: Session) -> str:
    version = session.version.split(" ")[0]
    return f"Nsight Compute {version}".strip()
