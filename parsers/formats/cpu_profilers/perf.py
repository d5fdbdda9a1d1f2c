"""What perf prints: the share of each function (report), samples with their stacks (script), counted events (stat)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise

import numpy as np

from parsers.files.base import Parser, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Effect, Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.names.mangled import readable_symbol
from parsers.model.names.source_files import KERNEL, KERNEL_FRAME, is_address
from parsers.model.quality import WITHOUT_TIMES
from parsers.model.results import Cell, TimeOf, Totals, titled
from parsers.printed_profile import PrintedProfile
from parsers.stacks.timeline import (
    COUNTED,
    COUNTED_NS,
    MAX_DEPTH,
    SampledThread,
    add_thread,
    allow_threads,
    frame_name,
    sample_ends,
    set_aside,
    tell_few,
    usual_distance,
)

_UNKNOWN = "[unknown]"  # binary
_HEADER = regex(r"# +(?:Children +Self|Overhead) .*\bSymbol\b", re.MULTILINE)
_REPORTED = regex(r"\s{1,8}\d{1,3}\.\d\d%\s")
_EVENT = regex(r"# Samples: \S+\s+of event '([\w-]{1,80})")
_COUNT = regex(r"# Event count \(approx\.\): (\d{1,19})")
_OF_TIME = ("cpu-clock", "task-clock")  # events that count ns
_SHARES = ("Overhead", "Children", "Self")
_MODE = regex(r"\[[.kuHg]\] ")
_IN_KERNEL = "[k] "


@parser
class PerfReport(PrintedProfile):
    """Recognised by the header of its table, which is a comment with the names of its columns."""

    format = "perf-report"
    title = "CPU profilers"
    files = "output of perf report --stdio"
    suffixes = (".txt",)
    priority = 59
    version = 4
    producer = "perf report"

    def recognises(self, source: Source) -> bool:
        return b"Symbol" in source.head and _HEADER.search(source.head.decode("latin-1")) is not None

    def tables(self, text: str) -> Iterator[ResultTable]:
        lines = text.splitlines()
        headers = [place for place, line in enumerate(lines[:-1]) if _HEADER.match(line)]
        ns = _lengths(lines)
        for place, until in pairwise([*headers, len(lines)]):
            titles, rows = _rows(lines[place], lines[place + 1 : until], ns.get(place, 0))
            if not rows:
                continue
            columns = tuple(ResultColumn(title, unit) for title, unit in titles)
            totals = Totals(
                TimeOf.CPU,
                next(at for at, (title, _) in enumerate(titles) if title == "Symbol"),
                next((at for at, (title, _) in enumerate(titles) if title == "Time"), -1),
                next(at for at, (title, _) in enumerate(titles) if title in ("Overhead", "Self")),
            )
            yield ResultTable("Functions of perf", columns, rows, totals=(totals,))


def _lengths(lines: list[str]) -> dict[int, int]:
    """By the place of each header: ns of all samples, where their event counts time."""
    found: dict[int, int] = {}
    is_time, ns = False, 0
    for place, line in enumerate(lines):
        if event := _EVENT.match(line):
            is_time, ns = event[1] in _OF_TIME, 0
        elif count := _COUNT.match(line):
            ns = int(count[1]) if is_time else 0
        elif ns and _HEADER.match(line):
            found[place] = ns
    return found


def _rows(
    header: str, below: list[str], ns: int
) -> tuple[list[tuple[str, str]], tuple[tuple[Cell, ...], ...]]:
    """Titles with units, and rows; ``below`` begins with the dots that say where columns are."""
    edges = [found.start() for found in re.finditer(r"\.+", below[0])]
    places = [slice(start, end) for start, end in pairwise([*edges, None])]
    names = [header[place].strip() for place in places]
    own = next((at for at, name in enumerate(names) if name in ("Overhead", "Self")), None)
    if own is None or "Symbol" not in names:
        return [], ()
    symbol = names.index("Symbol")
    binary = next((at for at, name in enumerate(names) if name == "Shared Object"), None)
    titles = [(name, "%" if name in _SHARES else "") for name in names]
    rows: list[tuple[Cell, ...]] = []
    for line in below[1:]:
        if not _REPORTED.match(line):
            continue
        cells = [_cell(line[place].strip(), unit) for place, (_, unit) in zip(places, titles, strict=True)]
        if is_address(str(cells[symbol])):  # what has no symbols is told by where it is
            if line[places[symbol]].startswith(_IN_KERNEL):
                cells[symbol] = KERNEL
            elif binary is not None and cells[binary] != _UNKNOWN:
                cells[symbol] = cells[binary]
        share = cells[own]
        time = (share / 100.0 * ns,) if ns and isinstance(share, float) else ()
        rows.append((*cells, *time))
    rows = [row for row in rows if len(row) == len(titles) + bool(ns)]
    return ([*titles, ("Time", "ns")] if ns else titles), tuple(rows)


def _cell(text: str, unit: str) -> Cell:
    if unit:
        try:
            return float(text.rstrip("%"))
        except ValueError:
            return None
    return readable_symbol(_MODE.sub("", text, 1)) or None


_SAMPLE = regex(
    rb"\s{0,16}(?P<comm>\S.{0,63}?)\s+(?:(?P<pid>\d{1,10})/)?(?P<tid>-?\d{1,10})\s+(?:\[(?P<cpu>\d{1,5})\]\s+)?"
    rb"(?:[A-Za-z.]{1,8}\s+)?(?:(?P<time>\d{1,10}\.\d{3,9}):\s+)?(?:\d{1,20}\s+)?(?P<event>[A-Za-z_][\w.:/,=@-]{0,99}?):(?P<rest>\s.*|)"
)
_FRAME = regex(
    rb"\s+(?P<address>[0-9a-f]{1,16}) (?P<symbol>.{1,2000}?)(?: \((?P<binary>[^()]{1,1000})\))?\s*"
)
_OFFSET = regex(r"\+0x[0-9a-f]+$")
_PYTHON = regex(r"py::(?P<function>[^:]+):(?P<file>.+)")
_UPPER_HALF = 1 << 63
_LOOKED_AT = 60  # lines
_MAX_BYTES = 512 << 20
_MAX_LINE_LENGTH = 1 << 16


@dataclass(slots=True)
class _Thread:
    """The samples of one thread, as they come."""

    process: int | None
    is_timed: bool
    time: array[int] = field(default_factory=lambda: array("q"))
    length: array[int] = field(default_factory=lambda: array("i"))
    frame: array[int] = field(default_factory=lambda: array("i"))


@parser
class PerfScript(Parser):
    """Recognised by the first line of a sample and a frame below it."""

    format = "perf-script"
    title = "CPU profilers"
    files = "output of perf script"
    suffixes = (".txt", ".perf")
    priority = 49
    version = 5

    def recognises(self, source: Source) -> bool:
        lines = source.head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
        lines = [line for line in lines if line.strip() and not line.startswith(b"#")]
        first = _SAMPLE.fullmatch(lines[0][:_MAX_LINE_LENGTH]) if lines else None
        if first is None:
            return False
        if not first["time"]:
            below = _FRAME.fullmatch(lines[1]) if len(lines) > 1 else None
            return below is not None and bool(below["binary"])
        return len(lines) == 1 or any(map(_FRAME.fullmatch, lines[1:])) or bool(_inline(lines[0]))

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        builder.came_from(source.name, self.format, "perf")
        with open_bytes(source) as packed:
            stream = LimitedStream(packed, source, progress.part(0.0, 0.8), "reading samples")
            threads, wrong = _threads(_lines(stream, source), builder)
        if not any(each.frame for each in threads.values()):
            raise Malformed(
                source.path, "These samples contain no stacks.", "Record them with stacks: perf record -g."
            )
        set_aside(builder, "lines that are not part of a sample", wrong)
        tell_few(builder, sum(len(each.time) for each in threads.values()))
        if not any(each.is_timed for each in threads.values()):
            builder.quality.note(WITHOUT_TIMES, Effect.NOTED, COUNTED)
        usual = usual_distance(np.array(each.time, np.int64) for each in threads.values())
        for (name, thread), each in threads.items():
            add_thread(builder, _sampled(name, thread, each, usual))
        return builder.build(progress.part(0.8, 1.0))


def _lines(stream: LimitedStream, source: Source) -> Iterator[bytes]:
    rest, length = b"", 0
    while block := stream.read():
        length += len(block)
        if length > _MAX_BYTES:
            raise Malformed(source.path, f"It is larger than {_MAX_BYTES >> 20} MB.", "Record fewer samples.")
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        rest = rest[:_MAX_LINE_LENGTH]
    if rest:
        yield rest


def _threads(lines: Iterator[bytes], builder: TraceBuilder) -> tuple[dict[tuple[str, int], _Thread], int]:
    """The samples of each thread by its name and number, stacks outermost first; and how many lines are none."""
    threads: dict[tuple[str, int], _Thread] = {}
    known: dict[bytes, int] = {}
    current: _Thread | None = None
    stack: list[int] = []
    wrong = 0

    def end() -> None:
        if current is not None:
            current.frame.extend(reversed(stack))
            current.length.append(len(stack))
        stack.clear()

    for line in lines:
        if not line.strip() or line.startswith(b"#"):
            continue
        cut = line[:_MAX_LINE_LENGTH]
        sample = None if line[:1] == b"\t" else _SAMPLE.fullmatch(cut)
        if sample is not None:
            end()
            current = _begun(sample, threads)
            if current is None:
                wrong += 1
                continue
            allow_threads(len(threads))
            cut = b" " + sample["rest"]
            if not sample["rest"].strip():
                continue
        found = _FRAME.fullmatch(cut)
        if found is None or current is None:
            wrong += 1
            continue
        if len(stack) < MAX_DEPTH:
            key = b"%d%s\0%s" % (_is_in_kernel(found), found["symbol"], found["binary"] or b"")
            if (index := known.get(key)) is None:
                index = known[key] = builder.string(_named(found))
            stack.append(index)
    end()
    return threads, wrong


def _begun(sample: re.Match[bytes], threads: dict[tuple[str, int], _Thread]) -> _Thread | None:
    """The thread of a sample, which now has one more; None where only others of the thread have a time, or only it."""
    comm, thread = sample["comm"].decode("utf-8", "replace"), int(sample["tid"])
    process = int(sample["pid"]) if sample["pid"] else None
    is_timed = bool(sample["time"])
    found = threads.setdefault((f"{comm} {thread}", thread), _Thread(process, is_timed))
    if found.is_timed is not is_timed:
        return None
    if not is_timed:
        found.time.append(len(found.time) * COUNTED_NS)
        return found
    seconds, _, part = sample["time"].partition(b".")
    found.time.append(int(seconds) * 1_000_000_000 + int(part.ljust(9, b"0")))
    return found


def _inline(line: bytes) -> re.Match[bytes] | None:
    """The only frame of a sample that was recorded without a stack, on the line itself."""
    sample = _SAMPLE.fullmatch(line)
    return _FRAME.fullmatch(b" " + sample["rest"]) if sample and sample["rest"].strip() else None


def _named(found: re.Match[bytes]) -> str:
    """ "train.py(0): load" for a frame of Python (python -X perf), else "symbol (binary)"."""
    symbol = _OFFSET.sub("", found["symbol"].decode("utf-8", "replace").strip())
    if (of_python := _PYTHON.fullmatch(symbol)) is not None:
        return frame_name(of_python["function"], of_python["file"], 0)
    if _is_in_kernel(found):
        return KERNEL_FRAME
    binary = (found["binary"] or b"").decode("utf-8", "replace")
    symbol = readable_symbol(symbol)
    return f"{symbol} ({binary})" if binary else symbol


def _is_in_kernel(found: re.Match[bytes]) -> bool:
    """Whether a frame without a symbol is one of the kernel's, whose addresses are the upper half of all."""
    return found["symbol"].startswith(b"[unknown]") and int(found["address"], 16) >= _UPPER_HALF


def _sampled(name: str, thread: int, each: _Thread, usual: int) -> SampledThread:
    """Each sample stands for the time until the next one, if the thread ran until then."""
    time, length = np.array(each.time, np.int64), np.array(each.length, np.int64)
    first = np.cumsum(length) - length
    order = np.argsort(time, kind="stable")
    time, length, first = time[order], length[order], first[order]
    offset = np.append(0, np.cumsum(length))
    place = np.arange(int(offset[-1])) - np.repeat(offset[:-1] - first, length)
    frame = np.array(each.frame, np.int32)[place]
    return SampledThread(name, time, sample_ends(time, usual), offset, frame, each.process, thread)


_TITLE = regex(r" *Performance counter stats for '(.{1,200})'")
_END = "Performance counter stats for '-'"
_COUNTED = regex(
    r" *(\d[\d.,\u202f']{0,30}) +(?:(msec|Joules) +)?([\w./:=,-]{2,80})(?: +# +([\d.,]+) *(\S.{0,40}?))?(?: +\(.*)?$"
)
_ELAPSED = regex(r" *(\d[\d.,]{0,30}) (?:\+- \S+ )?seconds time elapsed")
_COLUMNS = titled("Event", "Count", "Unit", "Rate", "Rate of")
_TOLD = {"CPUs utilized": "{} CPUs busy", "insn per cycle": "{} instructions a cycle"}


@parser
class PerfStat(PrintedProfile):
    """Recognised by the line above the counts."""

    format = "perf-stat"
    title = "CPU profilers"
    files = "output of perf stat"
    suffixes = (".txt", ".log")
    priority = 66
    producer = "perf stat"

    def recognises(self, source: Source) -> bool:
        return any(
            b"Performance counter stats for" in each
            and any(map(_TITLE.match, each.decode("utf-8", "replace").splitlines()))
            for each in source.printed
        )

    def tables(self, text: str) -> Iterator[ResultTable]:
        """A table for each program; its title says how busy it kept the CPU."""
        program, elapsed = "", ""
        rows: list[tuple[Cell, ...]] = []
        for each in [*text.splitlines(), _END]:
            line = each.rstrip()
            if found := _TITLE.match(line):
                if program:
                    yield _table(program, elapsed, rows)
                program, elapsed, rows = found[1], "", []
            elif found := _ELAPSED.match(line):
                seconds = _number(found[1])
                elapsed = f"{seconds:.3g} s" if isinstance(seconds, float) else ""
            elif program and (found := _COUNTED.match(line)):
                count, unit, event, rate, of = found.groups()
                rows.append((event, _number(count), unit, None if rate is None else _number(rate), of))


def _table(program: str, elapsed: str, rows: list[tuple[Cell, ...]]) -> ResultTable:
    told = [
        _TOLD[str(of)].format(f"{rate:.3g}")
        for *_, rate, of in rows
        if of in _TOLD and isinstance(rate, float)
    ]
    about = ", ".join([*told, *([elapsed] if elapsed else [])])
    return ResultTable(
        f"perf stat of {program}: {about}" if about else f"perf stat of {program}", _COLUMNS, tuple(rows)
    )


def _number(text: str) -> Cell:
    """The count; commas part thousands."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text
