"""Recordings of any size that cost more than they look: each function makes one whose amount grows with ``count``."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from typing import Any

import zstandard

Make = Callable[[int], bytes]


def trace(events: list[dict[str, Any]], **keys: Any) -> bytes:
    """A Chrome trace with these events."""
    return json.dumps({**keys, "traceEvents": events}).encode()


def complete(name: str, start: float, duration: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "ts": start,
        "dur": duration,
        "pid": 1,
        "tid": 1,
        "cat": "cpu_op",
        **more,
    }


def kernel(name: str, start: float, number: int = 0, device: int = 0, stream: int = 7) -> dict[str, Any]:
    stated = {"device": device, "stream": stream, "correlation": number}
    return complete(name, start, 1.0, cat="kernel", pid=device, tid=stream, args=stated)


def launch(start: float, number: int, tid: int = 1) -> dict[str, Any]:
    return complete("cudaLaunchKernel", start, 1.0, cat="cuda_runtime", tid=tid, args={"correlation": number})


def unmatched_pairs(count: int) -> bytes:
    """Ranges that begin under one name and end under another."""
    begins = [
        {"ph": "B", "name": f"b{number % 7}", "pid": 1, "tid": 1, "ts": number} for number in range(count)
    ]
    ends = [
        {"ph": "E", "name": f"e{number % 7}", "pid": 1, "tid": 1, "ts": count + number}
        for number in range(count)
    ]
    return trace([*begins, *ends])


def buried_pairs(count: int) -> bytes:
    """Ranges whose beginnings all end in the order in which they began."""
    begins = [{"ph": "B", "name": f"n{number}", "pid": 1, "tid": 1, "ts": number} for number in range(count)]
    ends = [{**each, "ph": "E", "ts": count + number} for number, each in enumerate(begins)]
    return trace([*begins, *ends])


def asynchronous_begins(count: int) -> bytes:
    """Asynchronous ranges that never end."""
    return trace(
        [complete("a", 0.0)]
        + [
            {"ph": "b", "name": "a", "cat": "x", "id": number, "pid": 1, "tid": 1, "ts": number}
            for number in range(count)
        ]
    )


def devices(count: int) -> bytes:
    """One kernel on each of many devices, which the file describes."""
    listed = [{"id": number, "name": "GPU", "numSms": 100} for number in range(count)]
    events = [launch(number, number + 1) for number in range(count)]
    events += [kernel("gemm", number, number + 1, device=number) for number in range(count)]
    return trace(events, schemaVersion=1, deviceProperties=listed)


def streams(count: int) -> bytes:
    """One kernel on each of many streams."""
    events = [launch(number, number + 1) for number in range(count)]
    return trace([*events, *(kernel("gemm", number, number + 1, stream=number) for number in range(count))])


def threads(count: int) -> bytes:
    """One operator and one launch on each of many threads."""
    events = [complete("aten::mm", number * 3, 2.0, tid=number) for number in range(count)]
    events += [launch(number * 3, number + 1, tid=number) for number in range(count)]
    return trace([*events, *(kernel("gemm", number * 3 + 2, number + 1) for number in range(count))])


def processes(count: int) -> bytes:
    """One operator in each of many processes, all with names."""
    named = [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"python {number}"}}
        for number in range(count)
    ]
    return trace([*named, *(complete("aten::mm", number, pid=number) for number in range(count))])


def distinct_names(count: int) -> bytes:
    """Kernels that all have names of their own."""
    events = [launch(number * 2, number + 1) for number in range(count)]
    return trace(
        [*events, *(kernel(f"gemm_{number}<float>", number * 2 + 1, number + 1) for number in range(count))]
    )


def long_names(length: int) -> bytes:
    """Names of kernels, operators and regions that are long, of parts that patterns look for."""
    parts = (
        "<",
        "(",
        "aten::",
        "void ",
        "ncclDevKernel_",
        "x",
        " ",
        "gemm_",
        "_",
        "::",
        "128x",
        "at::native::",
    )
    events = []
    for number, part in enumerate(parts):
        name = (part * (length // len(part) + 1))[:length]
        events += [
            complete(name, number * 10, 9.0),
            complete(name, number * 10, 9.0, cat="user_annotation"),
            complete(name, number * 10, 9.0, cat="python_function"),
            launch(number * 10 + 1, number + 1),
            kernel(name, number * 10 + 3, number + 1),
        ]
    return trace(events)


def arrows(count: int) -> bytes:
    """Flow events from thread to thread."""
    events = [complete("cudaLaunchKernel", 0.0, count * 2.0, cat="other")]
    for number in range(count):
        both = {"name": "flow", "cat": "other", "id": number, "pid": 1}
        events += [
            {**both, "ph": "s", "tid": number, "ts": number},
            {**both, "ph": "f", "tid": number, "ts": number + 1},
        ]
        events.append(complete("hipLaunchKernel", number, 2.0, cat="other", tid=number))
    return trace(events)


def counters(count: int) -> bytes:
    """Counters of very many names."""
    return trace(
        [complete("a", 0.0)]
        + [
            {"ph": "C", "name": f"c{number}", "pid": 1, "ts": number, "args": {"v": 1}}
            for number in range(count)
        ]
    )


def _in_a_trace(middle: bytes) -> bytes:
    whole = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}, ' + middle
    return gzip.compress(whole + b"]}", 1)


def quotes(count: int) -> bytes:
    """A gzip of quotation marks."""
    return _in_a_trace(b'{"name": "' + b'"' * count)


def control_characters(count: int) -> bytes:
    """A gzip of control characters inside a name."""
    return _in_a_trace(
        b'{"ph": "X", "ts": 2, "dur": 1, "pid": 1, "tid": 1, "name": "' + b"\x01" * count + b'"}'
    )


def brackets(count: int) -> bytes:
    """A gzip of brackets that never close."""
    return _in_a_trace(b'{"ph": "X", "args": ' + b"[" * count)


def braces(count: int) -> bytes:
    """A gzip of the beginnings of events."""
    return _in_a_trace(b'{"ph":' * count)


def backslashes(count: int) -> bytes:
    """A gzip of backslashes inside a name."""
    return _in_a_trace(
        b'{"ph": "X", "ts": 2, "dur": 1, "pid": 1, "tid": 1, "name": "' + b"\\x" * count + b'"}'
    )


def blank_header(count: int) -> bytes:
    """A gzip of spaces where the list of events should begin."""
    return gzip.compress(b"{" + b" " * count + b'"traceEvents" ' + b" " * count + b": [", 1)


def zstd_frames(count: int) -> bytes:
    """A trace after very many empty zstd frames."""
    return zstandard.compress(b"") * count + zstandard.compress(trace([complete("a", 0.0)]))


def gzip_members(count: int) -> bytes:
    """A trace after very many empty gzip members."""
    return gzip.compress(b"", 1, mtime=0) * count + gzip.compress(trace([complete("a", 0.0)]))


def smi_log_of_uuids(count: int) -> bytes:
    """A device log in which every line is of another GPU."""
    lines = ["timestamp, uuid, utilization.gpu [%]"]
    lines += [
        f"2026/01/01 00:00:{number % 60:02}.000, GPU-{number:08x}, {number % 100} %"
        for number in range(count)
    ]
    return "\n".join(lines).encode()


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _report(header: bytes, payload: bytes) -> bytes:
    return gzip.compress(b"NVR\0" + struct.pack("<II", 0, len(header)) + header + payload, 1)


def empty_launches(count: int) -> bytes:
    """A report of Nsight Compute with launches that hold nothing."""
    return _report(_field(2, count) + _field(5, 4 * count), bytes(4 * count))


def small_launches(count: int) -> bytes:
    """A report of Nsight Compute with launches that hold nothing but a name of one letter."""
    launch = _field(6, b"k")
    each = struct.pack("<I", len(launch)) + launch
    return _report(_field(2, count) + _field(5, len(each) * count), each * count)


def empty_sources(count: int) -> bytes:
    """A report of Nsight Compute that announces sources which hold nothing."""
    return _report(_field(1, count) + _field(2, 1) + _field(5, 4 * count + 4), bytes(4 * count + 4))


def empty_names(count: int) -> bytes:
    """A report of Nsight Compute with a table of empty names."""
    return _report(_field(4, _field(1, b"") * count) + _field(2, 1) + _field(5, 4), bytes(4))


MAKERS: dict[str, Make] = {
    each.__name__: each
    for each in (
        unmatched_pairs, buried_pairs, asynchronous_begins, devices, streams, threads, processes, distinct_names,
        long_names, arrows, counters, quotes, control_characters, brackets, braces, backslashes, blank_header,
        zstd_frames, gzip_members, smi_log_of_uuids, empty_launches, small_launches, empty_sources, empty_names,
    )
}  # fmt: skip
