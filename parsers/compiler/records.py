"""What the records of a compiler's log say: compilations with their seconds and reasons, and breaks of graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

import msgspec

from parsers.compiler.log_lines import Record
from parsers.files.decoders import UNREADABLE
from parsers.model.arrays import MAX_NUMBER
from parsers.model.late import dataclass, regex

MAX_COMPILATIONS, MAX_BREAKS = 50_000, 50_000  # of one log
_MAX_REASON_LENGTH = 300  # characters of a reason
_QUARTER_HOUR_NS = 900 * 1_000_000_000  # what time zones differ by
_MAX_SECONDS = 86_400.0 * 30
_RECOMPILED = regex(r"Recompiling function (.{1,300}?) in (.{1,1000}:\d{1,9})")
_OF_COMPILATION = regex(r"\s*(?:- )?\d+/\d+: ?")
_BROKEN_AT = regex(r"Graph break(?: \([^)\n]{1,200}\))? (?:in|from) user code at (.{1,1000}:\d{1,9})")
_REASON = regex(r"(?:Graph Break )?Reason: (?:Unsupported: )?(.*)")
_HINT = regex(r"\s*Hint: (.*)")
_ABOUT_THE_TRACER = ("Encountered graph break when", "Encountered exception")


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of one frame; seconds are None where only its reason was logged."""

    compile_id: str
    name: str
    place: str  # "train.py:17"
    start_ns: int  # since 1970; 0 where it is not stated
    local_ns: int  # when it was logged, as ``Record.local``
    seconds: float | None = None
    backend_seconds: float | None = None
    operators: int | None = None
    reason: str = ""  # why once more
    failure: str = ""

    def began_ns(self, clock: int) -> int:
        """When it began; a record that states only how long it took was written at its end."""
        return self.start_ns or self.local_ns + clock - round((self.seconds or 0.0) * 1e9)


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """One place at which the compiler gave up a graph and went on behind it."""

    place: str
    reason: str
    hint: str
    compile_id: str
    local_ns: int


@dataclass(slots=True)
class CompilerLog:
    """Everything that one log says; ``damaged`` records could not be read, ``left_out`` were too many."""

    compilations: list[Compilation] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    rank: int | None = None
    damaged: int = 0
    left_out: int = 0
    _reasons: dict[str, tuple[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(records: Iterable[Record]) -> CompilerLog:
        log = CompilerLog()
        for record in records:
            if log.rank is None:
                log.rank = record.rank
            if record.compile_id:
                log._take_plain(record)
            else:
                log._take_structured(record)
        log._keep_reasons_alone()
        return log

    @property
    def clock_ns(self) -> int | None:
        """What to add to ``local_ns`` to get ns since 1970; None where no record states both."""
        apart = sorted(
            each.start_ns + round((each.seconds or 0.0) * 1e9) - each.local_ns
            for each in self.compilations
            if each.start_ns
        )
        if not apart:
            return None
        return round(apart[len(apart) // 2] / _QUARTER_HOUR_NS) * _QUARTER_HOUR_NS

    def _take_plain(self, record: Record) -> None:
        text = record.payload
        if record.header == b"graph_breaks":
            self._add_break(text, record.compile_id, record.local)
        elif (found := _RECOMPILED.match(text)) is not None:
            reason = next((each for each in map(_reason, text.split("\n")) if each), "")
            self._add(Compilation(record.compile_id, found[1], found[2], 0, record.local, reason=reason))

    def _take_structured(self, record: Record) -> None:
        try:
            header = _HEADER.decode(record.header)
        except UNREADABLE:
            self.damaged += 1
            return
        if self.rank is None:
            self.rank = header.rank
        compile_id = f"{header.frame_id}/{header.frame_compile_id}"
        metrics = header.compilation_metrics or header.bwd_compilation_metrics
        if metrics is not None:
            self._add_metrics(metrics, compile_id, record.local)
        elif header.artifact is not None and header.artifact.name == "recompile_reasons":
            if len(self._reasons) < MAX_COMPILATIONS:
                self._reasons[compile_id] = (_stated_reason(record.payload), record.local)
        elif header.artifact is not None:
            self._add_break(record.payload, compile_id, record.local)

    def _add_metrics(self, metrics: _Metrics, compile_id: str, local: int) -> None:
        microseconds = metrics.duration_us or metrics.dynamo_cumulative_compile_time_us
        seconds = microseconds / 1e6 if microseconds else metrics.entire_frame_compile_time_s
        start = (
            metrics.start_time_us * 1_000 if metrics.start_time_us else round((metrics.start_time or 0) * 1e9)
        )
        if seconds is None or not 0 <= seconds <= _MAX_SECONDS or not 0 <= start < MAX_NUMBER:
            self.damaged += 1
            return
        compile_id = metrics.compile_id or compile_id
        self._add(
            Compilation(
                compile_id,
                metrics.co_name or "backward",
                f"{metrics.co_filename}:{metrics.co_firstlineno}" if metrics.co_filename else "",
                start,
                local,
                seconds,
                metrics.backend_compile_time_s,
                metrics.graph_op_count,
                self._reasons.pop(compile_id, ("", 0))[0],
                _line(metrics.fail_reason or ""),
            )
        )

    def _add(self, compilation: Compilation) -> None:
        if len(self.compilations) < MAX_COMPILATIONS:
            self.compilations.append(compilation)
        else:
            self.left_out += 1

    def _add_break(self, text: str, compile_id: str, local: int) -> None:
        place = _BROKEN_AT.search(text)
        lines = text.split("\n")
        at = next((number for number, line in enumerate(lines) if _REASON.match(line)), None)
        if place is None or at is None:
            self.damaged += 1
            return
        if len(self.breaks) >= MAX_BREAKS:
            self.left_out += 1
            return
        stated = _REASON.match(lines[at])
        reason = stated[1] if stated else ""
        if reason.startswith(_ABOUT_THE_TRACER):
            reason = next((line for line in lines[at + 1 :] if line.strip()), reason)
        hint = next((found[1] for line in lines if (found := _HINT.match(line))), "")
        self.breaks.append(GraphBreak(place[1], _line(reason), _line(hint), compile_id, local))

    def _keep_reasons_alone(self) -> None:
        """Compilations of which a log that was cut holds the reason alone."""
        known = {each.compile_id.partition("/")[0]: each for each in self.compilations}
        for compile_id, (reason, local) in self._reasons.items():
            if (same := known.get(compile_id.partition("/")[0])) is not None:
                alone = replace(same, compile_id=compile_id, start_ns=0, seconds=None, backend_seconds=None)
                self._add(replace(alone, local_ns=local, reason=reason, failure=""))


class _Artifact(msgspec.Struct):
    name: str = ""


class _Metrics(msgspec.Struct):
    """Of some eighty figures the ones that are shown."""

    compile_id: str | None = None
    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: int | None = None
    start_time: float | None = None
    start_time_us: int | None = None
    duration_us: int | None = None
    dynamo_cumulative_compile_time_us: int | None = None  # alone between torch 2.5 and 2.6
    entire_frame_compile_time_s: float | None = None
    backend_compile_time_s: float | None = None
    graph_op_count: int | None = None
    fail_reason: str | None = None


class _Header(msgspec.Struct):
    frame_id: int | None = None
    frame_compile_id: int | None = None
    rank: int | None = None
    artifact: _Artifact | None = None
    compilation_metrics: _Metrics | None = None
    bwd_compilation_metrics: _Metrics | None = None


_HEADER = msgspec.json.Decoder(_Header)


def _stated_reason(payload: str) -> str:
    """The first reason of a list of them, or of one that is written by itself: the newest compilation's."""
    try:
        reasons = msgspec.json.decode(payload, type=list[str])
    except (msgspec.MsgspecError, RecursionError):
        reasons = [payload.strip().removeprefix('"')]
    return next((found for each in reasons if (found := _reason(each))), "")


def _reason(line: str) -> str:
    """ "tensor 'x' size mismatch ..." of "0/0: tensor 'x' size mismatch ...  # the code"; empty for other lines."""
    found = _OF_COMPILATION.match(line)
    return _line(line[found.end() :].split("\n")[0].split("  #")[0]) if found else ""


def _line(text: str) -> str:
    whole = " ".join(text.split("\n")[0].split())
    return whole if len(whole) <= _MAX_REASON_LENGTH else f"{whole[: _MAX_REASON_LENGTH - 1]}…"
