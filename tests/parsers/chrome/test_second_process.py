"""A large file read by two processes is the same trace, also when the second one fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parsers import helper_process, open_trace
from parsers.chrome.decode import second_process
from parsers.chrome.decode.second_process import Share
from parsers.chrome.decode.stream import BYTES_AT_ONCE, EventStream
from parsers.model import Cancelled, Progress, Trace
from tests.parsers.chrome.traces import balanced, complete, kernel, launch, packed, text_of

PADDING = "x" * 12_000


def large_text(trailer: str = "") -> str:
    """A file of several chunks: few events, each with a long argument."""
    events = []
    for number in range(200):
        at = number * 100
        padded = {"args": {"Input Dims": [[number, 2]], "Sequence number": number, "padding": PADDING}}
        events.append(complete(f"op{number % 7}", at, 50, **padded, tid=number % 3))
        events.append(complete("nccl:all_reduce", at + 1, 40, "user_annotation", args={"padding": PADDING}))
        events.append(launch(at + 5, number + 1))
        events.append(
            kernel(f"gemm{number % 5}", at + 20, 30, number + 1, grid=[number, 2, 3], padding=PADDING)
        )
        events.append({"ph": "C", "name": "queue", "pid": 1, "ts": at, "args": {"length": number}})
        events.append({"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": at, "s": "t"})
    events.append(complete("broken", 50, "no number", args=[]))
    return text_of(events, schemaVersion=1, distributedInfo={"rank": 2})[:-1] + trailer + "}"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(second_process, "HEAD_START", 0)
    monkeypatch.setattr(second_process, "_has_free_processor", lambda: True)


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "large.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def opened_alone(path: Path) -> Trace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_process, "WORTH_A_PROCESS", 1 << 60)
        return open_trace([path])


def content_of(trace: Trace) -> list[object]:
    """Everything that must not depend on who read it; names are resolved, as their numbers do."""
    order = np.lexsort((trace.events.source_row, trace.events.start))
    names = [trace.strings[index] for index in trace.events.name[order].tolist()]
    lanes = [trace.lanes[index] for index in trace.events.lane[order].tolist()]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    links = sorted(
        zip(place[trace.links.operation].tolist(), place[trace.links.launch].tolist(), strict=True)
    )
    attributes = {
        which: sorted(
            (int(place[event]), trace.text_attribute(which, event) if "shape" in which.value else int(value))
            for event, value in zip(column.event.tolist(), column.value.tolist(), strict=True)
        )
        for which, column in trace.attributes.items()
        if which.value not in ("input_dims", "input_types")
    }
    counters = [(each.name, each.time.tolist(), each.value.tolist()) for each in trace.counters]
    notes = sorted((note.kind, note.count) for note in trace.quality.notes)
    return [
        names, lanes, trace.events.start[order].tolist(), trace.events.end[order].tolist(),
        trace.events.source_row[order].tolist(), links, attributes, counters, notes, trace.quality.events_read,
    ]  # fmt: skip


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("form", ["plain", "gzip"])
def test_two_processes_read_what_one_reads(tmp_path: Path, form: str) -> None:
    text = large_text()
    assert len(text) > 3 * BYTES_AT_ONCE
    path = written(tmp_path, text if form == "plain" else packed(text))
    together, alone = open_trace([path]), opened_alone(path)
    assert content_of(together) == content_of(alone)
    assert balanced(together)
    for event in range(0, len(together.events), 97):
        assert together.arguments(event).get("padding", PADDING) == PADDING


@pytest.mark.parametrize("events", ["long", "short"])
def test_a_chunk_is_the_same_whatever_was_passed_over(tmp_path: Path, events: str) -> None:
    short = text_of([complete(f"op{number % 7}", number, 1, padding="x" * 200) for number in range(30_000)])
    path = written(tmp_path, short if events == "short" else large_text())
    share = Share(str(path), "", 1 << 62, head_start=0)

    def chunks(stream: EventStream) -> list[tuple[int, int, bytes]]:
        return [(each.number, each.offset, each.data) for each in stream]

    with path.open("rb") as all_of_it, path.open("rb") as ours, path.open("rb") as helpers:
        whole = chunks(EventStream(all_of_it))
        parts = chunks(share.stream(ours, is_helper=False)), chunks(share.stream(helpers, is_helper=True))
    assert events == "long" or max(map(len, parts)) < len(whole) > 4
    assert sorted(set(parts[0]) | set(parts[1])) == whole


@pytest.mark.usefixtures("always")
def test_a_trailer_that_looks_like_events_is_not_read(tmp_path: Path) -> None:
    fake = ",".join(
        f'{{"ph":"X","name":"fake","ts":{number},"dur":1,"x":"{PADDING}"}}' for number in range(700)
    )
    path = written(tmp_path, large_text(f',"otherData":{{"files":[{fake}]}}'))
    trace = open_trace([path])
    assert "fake" not in trace.strings
    assert content_of(trace) == content_of(opened_alone(path))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("code", ["raise SystemExit(3)", "", "import os; os.kill(os.getpid(), 9)"])
def test_a_second_process_that_fails_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(helper_process, "CODE", code)
    path = written(tmp_path, large_text())
    assert content_of(open_trace([path])) == content_of(opened_alone(path))


@pytest.mark.usefixtures("always")
def test_cancelling_ends_the_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(helper_process, "CODE", "import time; time.sleep(60)")
    run = subprocess.Popen

    def remembered(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(run(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(helper_process.subprocess, "Popen", remembered)
    progress = Progress(lambda fraction, doing: progress.cancel() if fraction > 0.2 else None)
    with pytest.raises(Cancelled):
        open_trace([written(tmp_path, large_text())], progress)
    assert [process.poll() is not None for process in started] == [True]


def test_a_small_file_starts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        helper_process.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started")
    )
    open_trace([written(tmp_path, large_text())])


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for the frozen program is a shell script")
@pytest.mark.usefixtures("always")
def test_the_frozen_program_starts_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    path = written(tmp_path, large_text())
    alone = content_of(opened_alone(path))
    frozen, entry = tmp_path / "frozen program", repository / "packaging" / "entry.py"
    frozen.write_text(f'#!/bin/sh\nPYTHONPATH="{repository}" exec "{sys.executable}" "{entry}" "$@"\n')
    frozen.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remembered(command: list[str], **options: object) -> subprocess.Popen[bytes]:
        assert command[0] == str(frozen)
        started.append(start(command, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(helper_process.subprocess, "Popen", remembered)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(frozen))
    assert content_of(open_trace([path])) == alone
    assert [process.returncode for process in started] == [0]
