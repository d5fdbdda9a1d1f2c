"""Writes small trace files for tests and opens them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from parsers import open_trace
from parsers.model import Effect, Trace

Event = dict[str, Any]


def complete(name: str, start: Any, duration: Any, category: str = "cpu_op", **fields: Any) -> Event:
    """A complete event; times in us."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, **fields,
    }  # fmt: skip


def kernel(
    name: str, start: Any, duration: Any, correlation: int = 0, stream: int = 7, **arguments: Any
) -> Event:
    """A kernel on a stream of GPU 0."""
    stated = {"device": 0, "stream": stream, "correlation": correlation, **arguments}
    return complete(name, start, duration, "kernel", pid=0, tid=stream, args=stated)


def launch(start: Any, correlation: int, name: str = "cudaLaunchKernel", duration: Any = 2) -> Event:
    """The call that launches a kernel."""
    return complete(name, start, duration, "cuda_runtime", args={"correlation": correlation})


def text_of(events: list[Event], **keys: Any) -> str:
    """A minified file."""
    return json.dumps({**keys, "traceEvents": events}, separators=(",", ":"))


def opened(folder: Path, content: str | bytes, name: str = "trace.json") -> Trace:
    """The trace of a file with this content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_trace([path])


def trace_of(folder: Path, events: list[Event], **keys: Any) -> Trace:
    """The trace of a file with these events."""
    return opened(folder, text_of(events, **keys))


def packed(content: str) -> bytes:
    return gzip.compress(content.encode(), mtime=0)


def names(trace: Trace) -> list[str]:
    """Names of all events, in the order of their start."""
    order = trace.events.start.argsort(kind="stable")
    return [trace.strings[index] for index in trace.events.name[order].tolist()]


def note(trace: Trace, kind: str) -> tuple[int, Effect]:
    """Count and effect of a quality note; fails when there is none."""
    found = [each for each in trace.quality.notes if each.kind == kind]
    assert found, f"no note {kind}: {trace.quality.notes}"
    return found[0].count, found[0].effect


def balanced(trace: Trace) -> bool:
    """Whether the loss account adds up."""
    quality = trace.quality
    return (
        quality.events_read
        == quality.events_kept + quality.quarantined
        == len(trace.events) + quality.quarantined
    )
