"""Logs of torch.compile, structured and printed, and what compiled modules print when they measure their kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.texts import utf8
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, EventKind, Lane, LaneKind, Malformed, Progress, Rank, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.compilation import (
    COMPILATIONS,
    COMPILATIONS_TITLE,
    GRAPH_BREAK_AT,
    GRAPH_BREAKS,
    GRAPH_BREAKS_TITLE,
)
from parsers.model.late import regex
from parsers.model.results import MAX_ROWS, Cell, ResultTable, TimeOf, Totals, rows_shown, titled
from parsers.model.units import NS_PER_S
from parsers.printed_profile import PrintedProfile

if TYPE_CHECKING:
    from parsers.compiler.records import Compilation, CompilerLog, GraphBreak

_TITLE = regex(r"TRITON KERNELS BANDWIDTH INFO \(")
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_ROW = regex(rf"\s*{_NUMBER} ?ms\s+{_NUMBER} ?GB\s+{_NUMBER} ?GB/s\s+{_NUMBER} ?%\s+(\w+)\s*$")
_COLUMNS = titled("Kernel", "Time (ms)", "Share (%)", "Moved (GB)", "Bandwidth (GB/s)")


@parser
class InductorBandwidth(PrintedProfile):
    """Recognised by the title above its rows."""

    format = "inductor-bandwidth"
    title = "PyTorch compiler logs"
    files = "bandwidths of Triton kernels (TORCHINDUCTOR_PROFILE=1)"
    suffixes = (".txt", ".log")
    priority = 66
    producer = "PyTorch"

    def recognises(self, source: Source) -> bool:
        return _TITLE.search(utf8(source.head).decode("latin-1")) is not None

    def tables(self, text: str) -> Iterator[ResultTable]:
        rows: list[tuple[Cell, ...]] = []
        for line in [*text.splitlines(), "TRITON KERNELS BANDWIDTH INFO ("]:
            if _TITLE.match(line):
                totals = Totals(TimeOf.GPU, 0, 1, 2)
                yield ResultTable("Kernels of PyTorch's compiler", _COLUMNS, tuple(rows), totals=(totals,))
                rows = []
            elif found := _ROW.match(line):
                ms, moved, bandwidth, share = (float(found[place]) for place in range(1, 5))
                rows.append((found[5], ms, share, moved, bandwidth))


_LINES_LOOKED_AT = 200
_STRUCTURED = (b'"dynamo_start"', b'"chromium_event"', b'"compilation_metrics"', b'"str": [', b'"artifact"')


@parser
class CompilerLogs(Accompanying):
    """Recognised by lines of glog that hold JSON of the compiler, or its tags."""

    format = "torch-compiler-log"
    title = "PyTorch compiler logs"
    files = "TORCH_TRACE (dedicated_log_torch_trace_*.log); TORCH_LOGS=recompiles,graph_breaks"
    suffixes = (".log", ".txt")
    priority = 48
    version = 2

    def recognises(self, source: Source) -> bool:
        from parsers.compiler.log_lines import START, TAGGED

        for line in source.head.split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]:
            if (start := START.match(line)) is not None:
                said = line[start.end() :]
                if TAGGED.match(said) or (said[:1] == b"{" and any(key in said for key in _STRUCTURED)):
                    return True
        return False

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.compiler.log_lines import LogLines
        from parsers.compiler.records import CompilerLog

        lines = LogLines()
        with open_bytes(source) as packed:
            stream = LimitedStream(packed, source, progress.part(0.0, 0.9), "reading the log")
            log = CompilerLog.of(lines.wanted(stream))
        if not log.compilations and not log.breaks:
            if log.damaged:
                raise Malformed(
                    source.path,
                    "Nothing that this log says of compilations can be read.",
                    "Copy the log again, whole.",
                )
            raise Malformed(
                source.path,
                "This log holds no compilation, recompilation or graph break.",
                "Let the program run until it has compiled something, and copy the whole log.",
            )
        clock = log.clock_ns
        builder = TraceBuilder(epoch_ns=None if clock is None else 0)
        builder.came_from(source.name, self.format, "torch.compile", log.rank)
        builder.ranks += [] if log.rank is None else [Rank(log.rank)]
        _add(builder, log, clock or 0)
        builder.quality.note(
            "damaged", Effect.QUARANTINED, "records that cannot be read", "", log.damaged + lines.too_long
        )
        builder.quality.note(
            "rows-left-out", Effect.QUARANTINED, "more records than are read", "", log.left_out
        )
        builder.quality.read(log.damaged + lines.too_long + log.left_out)
        if stream.damage:
            builder.quality.note(
                "cut", Effect.NOTED, f"{stream.damage}; everything before that point was read"
            )
        return builder.build(progress.part(0.9, 1.0))


def _add(builder: TraceBuilder, log: CompilerLog, clock: int) -> None:
    """An event for each compilation, a mark for each break and each one without a duration, and both as tables."""
    lane = builder.lane(Lane(LaneKind.COMPILATION, "torch.compile", log.rank))
    timed = [each for each in log.compilations if each.seconds is not None]
    start = np.array([each.began_ns(clock) for each in timed], np.int64)
    end = start + np.array([round((each.seconds or 0.0) * NS_PER_S) for each in timed], np.int64)
    marks: list[tuple[int, str]] = [(each.local_ns, f"{GRAPH_BREAK_AT}{each.place}") for each in log.breaks]
    marks += [
        (each.local_ns, f"recompiled: {_called(each)}") for each in log.compilations if each.seconds is None
    ]
    at = np.array([local + clock for local, _ in marks], np.int64)
    builder.quality.read(len(timed) + len(marks))
    builder.add(start, end, _names(builder, map(_called, timed)), lane, EventKind.OTHER)
    builder.add(at, at, _names(builder, (name for _, name in marks)), lane, EventKind.MARK)
    first = int(min([*start.tolist(), *at.tolist()]))
    builder.tables += [
        each for each in (_compilations(builder, log, clock, first), _breaks(log, clock, first)) if each
    ]


def _names(builder: TraceBuilder, names: Iterable[str]) -> np.ndarray:
    return np.fromiter(map(builder.string, names), np.int32)


def _called(each: Compilation) -> str:
    """ "step (train.py:17)": the function and where it stands."""
    return f"{each.name} ({each.place})" if each.place else each.name


def _compilations(builder: TraceBuilder, log: CompilerLog, clock: int, first: int) -> ResultTable | None:
    if not log.compilations:
        return None
    in_order = sorted(log.compilations, key=lambda each: each.began_ns(clock))
    shown = in_order[: rows_shown(builder.quality, len(in_order))]
    rows = [
        (
            each.name,
            each.place,
            each.compile_id,
            (each.began_ns(clock) - first) / NS_PER_S,
            each.seconds,
            each.backend_seconds,
            None if each.operators is None else float(each.operators),
            each.reason or None,
            each.failure or None,
        )
        for each in shown
    ]
    return ResultTable(COMPILATIONS_TITLE, COMPILATIONS, tuple(rows))


def _breaks(log: CompilerLog, clock: int, first: int) -> ResultTable | None:
    """The breaks of one place and reason in one row, the most frequent first."""
    if not log.breaks:
        return None
    by_place: dict[tuple[str, str], list[GraphBreak]] = {}
    for each in log.breaks:
        by_place.setdefault((each.place, each.reason), []).append(each)
    rows = [
        (place, reason, float(len(same)), (same[0].local_ns + clock - first) / NS_PER_S, same[0].hint or None)
        for (place, reason), same in sorted(by_place.items(), key=lambda each: -len(each[1]))
    ]
    return ResultTable(GRAPH_BREAKS_TITLE, GRAPH_BREAKS, tuple(rows[:MAX_ROWS]))
