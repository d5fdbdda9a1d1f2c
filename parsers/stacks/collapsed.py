"""Stacks in the collapsed form, as threads of a recording: frames between semicolons, and how often each was seen."""

from __future__ import annotations

from io import BytesIO

import numpy as np

from parsers.files.base import HEAD_BYTES, Source
from parsers.model import Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.model.names.mangled import readable_symbol
from parsers.model.quality import OF_OPERATORS, WITHOUT_TIMES
from parsers.stacks.timeline import (
    COUNTED,
    COUNTED_NS,
    OPERATORS,
    OPERATORS_NS,
    WEIGHED,
    WEIGHED_NS,
    SampledThread,
    add_thread,
    allow_threads,
    frame_name,
    is_counted,
    samples_in,
    set_aside,
    stacks_of,
    tell_few,
)

STACK_LINE = regex(rb"([^\s;][^;]*(?:;[^;]+)*) (\d{1,12})\r?")
_FRAME = regex(r"(?P<function>.+) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?\)")
_SOURCE = regex(r"\.pyx?$|^<")  # without a line, other files are binaries
_PYTHON = regex(r"(?P<file>[^:]+\.\w+|<[^<>]+>):(?P<function>[^:]+):(?P<line>\d{1,9})")  # profiling.sampling
_TORCH = regex(r"(?P<file>.+)\((?P<line>\d{1,9})\):_(?P<function>.+)")  # export_stacks writes _ for blanks
_BUILT_IN = regex(r"<built-in_(method|function)_(.+?)(?:_of_.+)?>")
_MODULE = "nn.Module:_"
_OF_TORCH = regex(rb"[^;\n(]\(\d{1,9}\):_[^;\n]")
_GROUP = regex(r"(?:process|thread) .*|thread \(.*\).*|tid:\d+")
_QUOTED = regex(rb'process \d+:"')
_MAX_STACKS = 2_000_000  # with counts of twelve digits each they last no longer than a clock can state
_MAX_NAME_LENGTH = 1_000


def trace_of_stacks(source: Source, wrote: tuple[str, str], data: bytes, progress: Progress) -> Trace:
    """The trace of lines ``outer;inner 12``; ``wrote`` is the format and who wrote it. Raises where no line is one."""
    builder = TraceBuilder()
    builder.came_from(source.name, *wrote)
    threads, wrong = _threads(data, builder, progress.part(0.0, 0.7))
    if not threads:
        raise Malformed(source.path, "None of its lines is a stack with a count.", "Write it again.")
    set_aside(builder, "lines that are not a stack with a count", wrong)
    if _OF_TORCH.search(data, 0, HEAD_BYTES):
        builder.quality.note(OF_OPERATORS, Effect.NOTED, OPERATORS)
        unit = OPERATORS_NS
    else:
        weights = [count for _, counts in threads.values() for count in counts]
        counted = is_counted(weights)
        builder.quality.note(WITHOUT_TIMES, Effect.NOTED, COUNTED if counted else WEIGHED)
        unit = COUNTED_NS if counted else WEIGHED_NS
        tell_few(builder, sum(weights) if counted else samples_in(weights))
    for name, (stacks, counts) in threads.items():
        offset, frame = stacks_of(stacks)
        edges = np.append(0, np.cumsum(np.array(counts, np.int64))) * unit
        add_thread(builder, SampledThread(name, edges[:-1], edges[1:], offset, frame))
    return builder.build(progress.part(0.7, 1.0))


_Threads = dict[str, tuple[list[list[int]], list[int]]]


def _threads(data: bytes, builder: TraceBuilder, progress: Progress) -> tuple[_Threads, int]:
    """The stacks and counts of each thread, stacks that begin alike beside each other; and how many lines are none."""
    known: dict[bytes, int] = {}
    found: dict[str, list[tuple[list[int], int]]] = {}
    stacks = wrong = read = 0
    for number, whole in enumerate(BytesIO(data)):
        read, line = read + len(whole), whole.rstrip(b"\r\n")
        if number % 4_000 == 0:
            progress.step(read / len(data), "reading samples")
        match = STACK_LINE.fullmatch(line)
        count = int(match[2]) if match else 0
        if match is None or not count or stacks >= _MAX_STACKS:
            wrong += bool(line.strip())
            continue
        thread, frames = _split(match[1])
        stack = []
        for each in frames:
            if (index := known.get(each)) is None:
                index = known[each] = builder.string(_named(each))
            stack.append(index)
        found.setdefault(thread, []).append((stack, count))
        allow_threads(len(found))
        stacks += 1
    return {
        thread: ([stack for stack, _ in rows], [count for _, count in rows])
        for thread, rows in ((name, sorted(rows)) for name, rows in found.items())
    }, wrong


def _split(stack: bytes) -> tuple[str, list[bytes]]:
    """The thread that the outermost frames name, if they do, and the other frames."""
    frames = _with_whole_names(stack.split(b";"))
    leading = 0
    while leading < len(frames) - 1 and _GROUP.fullmatch(_text(frames[leading])):
        leading += 1
    if leading == 0 and len(frames) == 1 and _GROUP.fullmatch(_text(frames[0])):
        return _text(frames[0]), frames
    thread = ", ".join(_text(each).replace("tid:", "thread ") for each in frames[:leading])
    return thread or "samples", frames[leading:]


def _with_whole_names(frames: list[bytes]) -> list[bytes]:
    """The frames, with each command line that py-spy quotes in one piece, though it holds semicolons itself."""
    whole: list[bytes] = []
    place = 0
    while place < len(frames) and _QUOTED.match(frames[place]):
        ends = place
        while not frames[ends].endswith(b'"') and ends + 1 < len(frames):
            ends += 1
        if not frames[ends].endswith(b'"'):
            break
        whole.append(b";".join(frames[place : ends + 1]))
        place = ends + 1
    return [*whole, *frames[place:]]


def _named(frame: bytes) -> str:
    text = _text(frame)
    if text.startswith(_MODULE):
        return f"nn.Module: {text.removeprefix(_MODULE)}"
    if (called := _BUILT_IN.fullmatch(text)) is not None:
        return f"<built-in {called[1]} {called[2]}>"
    found = _TORCH.fullmatch(text) or _FRAME.fullmatch(text) or _PYTHON.fullmatch(text)
    if found is None or not (found["line"] or _SOURCE.search(found["file"])):
        return readable_symbol(text)
    return frame_name(found["function"], found["file"], int(found["line"] or 0))


def _text(frame: bytes) -> str:
    return frame[:_MAX_NAME_LENGTH].decode("utf-8", "replace")
