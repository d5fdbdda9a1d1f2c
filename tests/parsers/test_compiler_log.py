"""Logs of torch.compile, as torch writes them and as others damage them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.compiler import log_lines, records
from parsers.compiler.log_lines import LogLines
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import EventKind, LaneKind, ResultTable, Trace, TraceError
from viewer.cli import main

START = 1_795_490_130_000_000  # us since 1970: 24 November, 03:15:30 UTC
SECOND = 1_000_000


def line(said: str, at: str = "1124 03:15:30.000000", rank: str = "") -> str:
    return f"{rank}V{at} 419 torch/_dynamo/utils.py:2009] {said}\n"


def structured(payload: str = "", at: str = "1124 03:15:30.000000", **header: Any) -> str:
    tabbed = "".join(f"\t{each}\n" for each in payload.split("\n")) if payload else ""
    return line(json.dumps(header), at) + tabbed


def compiled(number: int, start_s: float = 0.0, took_s: float = 1.0, **stated: Any) -> str:
    metrics = {
        "compile_id": f"0/{number}",
        "co_name": "step",
        "co_filename": "/home/me/train.py",
        "co_firstlineno": 17,
        "start_time_us": START + round(start_s * SECOND),
        "duration_us": round(took_s * SECOND),
        "dynamo_config": "x" * 1000,
    } | stated
    return structured(
        at=f"1124 03:15:{30 + start_s + took_s:09.6f}",
        compilation_metrics=metrics,
        frame_id=0,
        frame_compile_id=number,
    )


def reasons(number: int, *said: str) -> str:
    payload = said[0] if len(said) == 1 else json.dumps(list(said), indent=0)
    artifact = {"name": "recompile_reasons", "encoding": "json"}
    return structured(payload, artifact=artifact, frame_id=0, frame_compile_id=number)


def broken(text: str) -> str:
    artifact = {"name": "dynamo_graph_break_reason", "encoding": "string"}
    return structured(text, artifact=artifact, frame_id=0, frame_compile_id=0)


def opened(folder: Path, text: str) -> Trace:
    path = folder / "log"
    path.write_text(text)
    return open_trace([path])


def table(trace: Trace, title: str) -> ResultTable:
    return next(each for each in trace.tables if each.title == title)


def test_what_torch_wrote_is_read_with_its_seconds_and_reasons(fixtures: Path) -> None:
    trace = open_trace([fixtures / "compiler" / "torch_trace.log"])
    compilations, breaks = table(trace, "Compilations"), table(trace, "Graph breaks")
    assert compilations.column("compilation") == (
        "0/0", "1/0", "0/1", "1/1", "0/2", "1/2", "0/3", "1/3", "2/0", "3/0", "3/1",
    )  # fmt: skip
    assert compilations.column("took")[0] == pytest.approx(26.742488)
    assert compilations.column("compiled again because")[-1] == "self.scale == 1.0"
    again = compilations.column("compiled again because")
    assert again[2] == "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert [each is not None for each in again].count(True) == 7
    assert breaks.column("times") == (4.0, 1.0)
    assert breaks.column("place") == ("/tmp/tt/compiled.py:20", "/tmp/tt/compiled.py:13")
    assert breaks.column("reason") == ("Data-dependent branching", "Failed to trace builtin operator")
    assert [lane.kind for lane in trace.lanes] == [LaneKind.COMPILATION]
    marks = trace.events.of_kind(EventKind.MARK)
    assert [trace.name(event) for event in marks.tolist()].count("graph break at /tmp/tt/compiled.py:20") == 4
    assert trace.epoch_ns == 1_795_490_130_141_431_000
    assert trace.events.start[marks[0]] == pytest.approx(48e6, abs=1e6)  # by the clock of the log's lines


def test_what_torch_prints_tells_the_same_reasons_without_seconds(fixtures: Path) -> None:
    trace, whole = (open_trace([fixtures / "compiler" / f"torch_{each}.log"]) for each in ("logs", "trace"))
    assert table(trace, "Graph breaks").column("place") == table(whole, "Graph breaks").column("place")
    assert table(trace, "Graph breaks").column("times") == (4.0, 1.0)
    stated = [each for each in table(whole, "Compilations").column("compiled again because") if each]
    assert list(table(trace, "Compilations").column("compiled again because")) == stated
    assert set(table(trace, "Compilations").column("took")) == {None}
    assert trace.epoch_ns is None


def test_reasons_stand_with_their_compilation_and_name_the_newest_first(tmp_path: Path) -> None:
    first = reasons(1, "0/0: L['n'] == 2    # y = x * n  # train.py:18 in step\nUser stack trace:\n  File")
    second = reasons(2, "0/1: L['n'] == 3", "0/0: L['n'] == 2")
    trace = opened(tmp_path, compiled(0) + first + compiled(1, 2) + second + compiled(2, 4))
    rows = table(trace, "Compilations")
    assert rows.column("compiled again because") == (None, "L['n'] == 2", "L['n'] == 3")
    assert rows.column("start") == (0.0, 2.0, 4.0)
    assert trace.events.duration.tolist() == [1_000_000_000] * 3
    assert trace.name(0) == "step (/home/me/train.py:17)"


def test_a_reason_whose_compilation_was_cut_off_stands_alone(tmp_path: Path) -> None:
    trace = opened(tmp_path, compiled(0) + reasons(1, "0/0: L['n'] == 2"))
    rows = table(trace, "Compilations")
    assert rows.column("compilation") == ("0/0", "0/1")
    assert rows.column("took") == (1.0, None)
    assert rows.column("compiled again because") == (None, "L['n'] == 2")


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (
            "Graph break in user code at /a/b.py:7\nReason: Unsupported: call_function print\nUser code",
            "/a/b.py:7",
            "call_function print",
        ),
        (
            "Graph break (user stack suppressed due to duplicate graph break) in user code at b.py:8\n"
            "Graph Break Reason: Data-dependent branching",
            "b.py:8",
            "Data-dependent branching",
        ),
        (
            "Graph break in user code at b.py:9\nGraph Break Reason: Encountered graph break when attempting to\n\n"
            "Skip calling `torch.compiler.disable()`d function\n  Hint: Remove the call",
            "b.py:9",
            "Skip calling `torch.compiler.disable()`d function",
        ),
    ],
)
def test_reasons_of_breaks_are_found_in_every_layout(
    text: str, place: str, reason: str, tmp_path: Path
) -> None:
    rows = table(opened(tmp_path, compiled(0) + broken(text)), "Graph breaks")
    assert (rows.column("place"), rows.column("reason")) == ((place,), (reason,))


def test_the_first_layouts_state_seconds_and_the_rank(tmp_path: Path) -> None:
    metrics = {
        "co_name": "step",
        "start_time": START / 1e6,
        "entire_frame_compile_time_s": 2.5,
        "fail_reason": "limit",
    }
    trace = opened(tmp_path, structured(compilation_metrics=metrics, frame_id=3, frame_compile_id=1, rank=5))
    rows = table(trace, "Compilations")
    assert rows.column("compilation") == ("3/1",)
    assert rows.column("took") == (2.5,)
    assert rows.column("failed because") == ("limit",)
    assert [rank.rank for rank in trace.ranks] == [5]
    printed = line("[0/1] [__recompiles] Recompiling function f in a.py:1", rank="[rank3]: ")
    assert opened(tmp_path, printed).inputs[0].rank == 3


def test_damaged_records_are_counted_and_the_others_read(tmp_path: Path) -> None:
    wrong = [
        line('{"compilation_metrics": {"duration_us": "long"}}'),
        line('{"compilation_metrics": '),
        structured(compilation_metrics={"duration_us": -5, "start_time_us": 1}),
        structured(compilation_metrics={"duration_us": 5, "start_time_us": 1 << 61}),
        broken("no break at all"),
        line('{"compilation_metrics": ' + "[" * 5000),
    ]
    trace = opened(tmp_path, compiled(0) + "".join(wrong) + "what a program prints\n")
    assert trace.quality.quarantined == len(wrong)
    assert len(trace.events) == 1


def test_endless_lines_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MAX_LINE_LENGTH", 3 << 20)
    long = line('{"compilation_metrics": {"co_name": "' + "x" * (6 << 20) + '"}}')
    trace = opened(tmp_path, compiled(0) + long + compiled(1, 2))
    assert len(trace.events) == 2
    assert trace.quality.quarantined == 1


@pytest.mark.parametrize(("most", "left_out"), [(3, 0), (2, 1)])
def test_more_records_than_are_read_are_counted(
    most: int, left_out: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_COMPILATIONS", most)
    trace = opened(tmp_path, "".join(compiled(number, 2.0 * number) for number in range(3)))
    assert trace.quality.quarantined == left_out
    assert trace.quality.events_read == trace.quality.events_kept + left_out


def test_a_compilation_that_states_only_what_dynamo_took_ends_where_it_was_logged(tmp_path: Path) -> None:
    alone = {"start_time_us": None, "duration_us": None, "dynamo_cumulative_compile_time_us": 2_500_000}
    trace = opened(tmp_path, compiled(0, 1.0, 4.0) + compiled(1, 8.0, 2.5, **alone))
    compilations = table(trace, "Compilations")
    assert compilations.column("took") == (4.0, 2.5)
    assert compilations.column("start") == (0.0, 7.0)


def test_a_log_whose_compilations_cannot_be_read_does_not_say_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(compiled(0, start_time_us=None, duration_us=None))
    assert main(["diagnose", str(path)]) == 2
    assert "Nothing that this log says of compilations can be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        structured(dynamo_start={"stack": []}),
        line('{"artifact": {"name": "torch_version"}}'),
        line("[0/0] [__recompiles] nothing of the kind"),
    ],
)
def test_a_log_without_compilations_is_refused_in_one_sentence(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    parser = parser_of(identify(path))
    assert parser is not None
    assert parser.format == "torch-compiler-log"
    assert main(["diagnose", str(path)]) == 2
    assert "holds no compilation" in capsys.readouterr().err


@given(st.lists(st.sampled_from(["metrics", "text", "payload"]), max_size=8), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log"
    parts = {
        "metrics": compiled(1).encode()[:-20],
        "text": b"\n" + line("[0/1] [__graph_breaks] ").encode()[:-1],
    }
    path.write_bytes(compiled(0).encode() + b"".join(parts.get(kind, b"\n\t") + noise for kind in kinds))
    try:
        trace = open_trace([path])
    except TraceError:
        return
    assert len(trace.events)


def test_lines_are_the_same_however_they_are_cut_into_blocks(fixtures: Path) -> None:
    data = (fixtures / "compiler" / "torch_trace.log").read_bytes()

    class Blocks:
        def __init__(self, size: int) -> None:
            self.rest, self.size = data, size

        def read(self) -> bytes:
            block, self.rest = self.rest[: self.size], self.rest[self.size :]
            return block

    whole, pieces = ([each.payload for each in LogLines().wanted(Blocks(size))] for size in (1 << 20, 999))  # type: ignore[arg-type]
    assert whole == pieces
    assert len(whole) == 11 + 7 + 5
