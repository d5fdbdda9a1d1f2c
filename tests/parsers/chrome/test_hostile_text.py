"""Broken JSON: what can be read is shown, what cannot is counted, and nothing crashes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard

from parsers import open_trace
from parsers.chrome.build import assemble
from parsers.chrome.decode import reading, stream
from parsers.formats import chrome_trace
from parsers.model import Effect, Malformed, TraceError, UnknownFormat
from tests.parsers.chrome.traces import (
    Event,
    balanced,
    complete,
    names,
    note,
    opened,
    packed,
    text_of,
    trace_of,
)

EVENTS = [complete(f"op{number}", 1000 + number * 10, 5) for number in range(10)]
TEXT = text_of(EVENTS)


def with_third(replacement: str) -> str:
    """The file with this text in the place of the third event."""
    return TEXT.replace(json.dumps(EVENTS[3], separators=(",", ":")), replacement)


def third(name: str) -> str:
    return f'{{"ph":"X","cat":"cpu_op","name":{name},"pid":1,"tid":1,"ts":1030,"dur":5}}'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r'"C:\path\q"', r"C:\path\q"),
        ('"two\nlines"', "two\nlines"),
        ('"bell\x07"', "bell\x07"),
        (r'"\u12 x"', r"\u12 x"),
        ('"<script>alert(1)</script>"', "<script>alert(1)</script>"),
        ('"=cmd()"', "=cmd()"),
        ('"x, nan, y"', "x, nan, y"),
        ('"}},{{"', "}},{{"),
        (r'"},{\"ph\":\"X\""', '},{"ph":"X"'),
        ('["a"]', '["a"]'),
        ("17", "17"),
        (r'"byte \udce9 of a path"', r"byte \udce9 of a path"),
        (r'"half \ud83d"', r"half \ud83d"),
        (r'"\ud83d\ud83d\ude00"', "\\ud83d\U0001f600"),
        (r'"C:\\users\\uf \q"', r"C:\users\uf \q"),
    ],
)  # fmt: skip
def test_odd_names_are_kept(tmp_path: Path, name: str, shown: str) -> None:
    trace = opened(tmp_path, with_third(third(name)))
    assert names(trace) == [
        *(f"op{number}" for number in range(3)),
        shown,
        *(f"op{number}" for number in range(4, 10)),
    ]
    assert balanced(trace)


def test_invalid_utf_8_is_shown_with_replacement_characters(tmp_path: Path) -> None:
    trace = opened(tmp_path, with_third(third('"caf@"')).encode().replace(b"@", b"\xe9"))
    assert names(trace)[3] == "caf\ufffd"
    assert note(trace, "repaired-text") == (1, Effect.REPAIRED)


def test_a_process_that_is_no_number_keeps_its_events(tmp_path: Path) -> None:
    trace = opened(tmp_path, with_third(third('"op3"').replace('"pid":1', '"pid":true')))
    assert len(trace.events) == 10


@pytest.mark.parametrize("second", [TEXT, "\n" + TEXT, TEXT[TEXT.index("[") : -1]])
def test_a_second_recording_in_one_file_is_pointed_out(tmp_path: Path, second: str) -> None:
    trace = opened(tmp_path, TEXT + second)
    assert len(trace.events) == 10
    assert note(trace, "second-list") == (1, Effect.NOTED)


def test_a_raw_quote_loses_one_event_which_is_counted(tmp_path: Path) -> None:
    trace = opened(tmp_path, with_third(third('"say "hi" twice"')))
    assert len(trace.events) == 9
    assert note(trace, "unreadable") == (1, Effect.QUARANTINED)
    assert balanced(trace)
    example = next(each.example for each in trace.quality.notes if each.kind == "unreadable")
    assert example.startswith(f"byte {TEXT.index(json.dumps(EVENTS[3], separators=(',', ':')))}")


@pytest.mark.parametrize("value", ["NaN", "nan", "inf", "-inf", "Infinity", "-Infinity"])
def test_a_bare_nan_in_the_arguments_loses_nothing(tmp_path: Path, value: str) -> None:
    text = third('"op3"').replace("}", f',"args":{{"load":{value},"list":[{value}]}}}}')
    trace = opened(tmp_path, with_third(text))
    assert len(trace.events) == 10
    assert note(trace, "repaired-text") == (1, Effect.REPAIRED)


@pytest.mark.parametrize("value", ["NaN", "-inf"])
def test_a_bare_nan_as_duration_is_set_aside(tmp_path: Path, value: str) -> None:
    trace = opened(tmp_path, with_third(third('"op3"').replace('"dur":5', f'"dur":{value}')))
    assert len(trace.events) == 9
    assert balanced(trace)


@pytest.mark.parametrize(
    "text",
    [
        TEXT[:-2],
        TEXT[:-1],
        TEXT[:-2] + ",",
        TEXT[:-2] + ",]}",
        TEXT[:-2] + ",{}]}",
        TEXT[:-2] + ",{},{},]}",
        TEXT[:-2] + "\n\n]\n}\n\n",
        "\ufeff" + TEXT,
        "  \n" + TEXT,
        TEXT[TEXT.index("[") : -1],
        TEXT[TEXT.index("[") : -2],
        TEXT[TEXT.index("[") : -2] + ",\n",
        "[ {}\n," + TEXT[TEXT.index("[") + 1 : -1],
        TEXT.replace("},{", "},\n  {"),
        TEXT.replace("},{", "}\n,{"),
        TEXT + "\0\0",
        TEXT[:-1] + ',"otherData":{"version":"x"}}',
        json.dumps({"metadata": {"traceEvents": 5}, "traceEvents": EVENTS}),
        json.dumps(
            {"displayTimeUnit": "ms", "traceEvents": EVENTS, "stackFrames": {"1": {"name": "x"}}}, indent=4
        ),
    ],
)
def test_all_ten_events_are_read_whatever_surrounds_them(tmp_path: Path, text: str) -> None:
    trace = opened(tmp_path, text)
    assert names(trace) == [f"op{number}" for number in range(10)]
    assert balanced(trace)


@pytest.mark.parametrize("missing", [8, 15, 30, 60])
def test_a_file_cut_in_an_event_shows_everything_before(tmp_path: Path, missing: int) -> None:
    trace = opened(tmp_path, TEXT[:-missing])
    assert names(trace) == [f"op{number}" for number in range(9)]
    assert note(trace, "cut") == (1, Effect.QUARANTINED)
    assert balanced(trace)


def test_every_cut_gives_the_events_before_it(tmp_path: Path) -> None:
    for length in range(TEXT.index("},{") + 1, len(TEXT), 7):
        trace = opened(tmp_path, TEXT[:length])
        whole = TEXT[:length].count("},{") + (TEXT[:length].endswith("}"))
        assert len(trace.events) in (whole, whole + 1)
        assert balanced(trace)


@pytest.mark.parametrize("length", range(1, TEXT.index("},{"), 5))
def test_a_cut_in_the_first_event_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(TraceError):
        opened(tmp_path, TEXT[:length])


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_cut_packed_stream_shows_everything_before(tmp_path: Path, form: str) -> None:
    many = text_of([complete(f"op{number % 97}", number * 7919 % 100_000, 5) for number in range(5000)])
    data = packed(many) if form == "gzip" else zstandard.compress(many.encode())
    trace = opened(tmp_path, data[: len(data) // 2])
    assert 1000 < len(trace.events) < 4000
    assert any(each.kind == "cut" for each in trace.quality.notes)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_damage_inside_packed_data_shows_everything_before(tmp_path: Path, form: str) -> None:
    events = [complete(f"op{number % 97}", number * 7919 % 100_000, 5) for number in range(20_000)]
    text = text_of(events)
    data = bytearray(packed(text) if form == "gzip" else zstandard.compress(text.encode()))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xa5" * 40
    trace = opened(tmp_path, bytes(data))
    assert 1000 < len(trace.events) < 20_000
    assert {each.kind for each in trace.quality.notes} & {"cut", "unreadable"}


@pytest.mark.parametrize("arguments", [[], None, "text", 5, {"correlation": []}, {"stream": {"a": 1}}])
def test_arguments_of_any_shape_are_no_loss(tmp_path: Path, arguments: object) -> None:
    trace = trace_of(tmp_path, [*EVENTS, complete("odd", 1500, 5, "kernel", args=arguments)])
    assert "odd" in names(trace)
    assert balanced(trace)


def test_unknown_phases_and_lone_ends_are_counted(tmp_path: Path) -> None:
    odd = [
        {"ph": "E", "pid": 1, "tid": 1, "ts": 1001},
        {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 1002},
        {"ph": "N", "name": "object", "pid": 1, "tid": 1, "ts": 1003},
        {"name": "no phase", "pid": 1, "tid": 1, "ts": 1003},
    ]
    trace = trace_of(tmp_path, EVENTS + odd)
    assert len(trace.events) == 10
    assert note(trace, "end-without-begin") == (1, Effect.QUARANTINED)
    assert note(trace, "begin-without-end") == (1, Effect.QUARANTINED)
    assert note(trace, "phase-N") == (1, Effect.NOTED)
    assert note(trace, "phase-missing") == (1, Effect.NOTED)
    assert balanced(trace)


def test_process_and_thread_as_text_name_their_lanes(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("op", 1, 1, "x", pid="CPU functions", tid="worker A")])
    assert trace.lanes[0].name == "worker A"
    assert trace.lanes[0].process_name == "CPU functions"


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "[ ]", "{", "[", '{"traceEvents":[]}', '{"traceEvents":[{}]}', '{"a":1}', '["a"]', "[[[[", "{" * 5000,
     text_of([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}])],
)  # fmt: skip
def test_a_file_without_events_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises((Malformed, UnknownFormat)) as caught:
        opened(tmp_path, text)
    assert caught.value.problem.endswith(".")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("object_", "is_trace"), [({"gpu_pct": 40, "total_us": 8054.3}, False), ({"ph": "M"}, True)]
)
def test_a_list_of_other_objects_is_no_trace_without_events(
    tmp_path: Path, object_: Event, is_trace: bool
) -> None:
    with pytest.raises(Malformed if is_trace else UnknownFormat):
        opened(tmp_path, json.dumps([object_]))


def test_what_is_no_recording_at_all_is_refused(tmp_path: Path) -> None:
    for content, why in (
        (b"", "is empty"),
        (b"\0" * 100, "not a recording"),
        (b"hello", "not a recording"),
        (b"\x1f\x8b", "gzip data is damaged at its start"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip data is damaged at its start"),
        (b"\x28\xb5\x2f\xfd", "zstd data is damaged at its start"),
        (packed(""), "is empty"),
    ):
        with pytest.raises(TraceError, match=why):
            opened(tmp_path, content)


def test_a_named_pipe_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "missing", "folder"):
        with pytest.raises(TraceError):
            open_trace([tmp_path / name])


@pytest.mark.parametrize("name", ["trace.json", "trace.pb", "trace.gz", "trace.sqlite", "trace"])
@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_files_are_recognised_by_content(tmp_path: Path, name: str, form: str) -> None:
    content = {"plain": TEXT.encode(), "gzip": packed(TEXT), "zstd": zstandard.compress(TEXT.encode())}[form]
    assert len(opened(tmp_path, content, name).events) == 10


def test_deeply_nested_json_loses_one_event(tmp_path: Path) -> None:
    deep = third('"op3"').replace("}", ',"args":{"x":' + "[" * 10_000 + "]" * 10_000 + "}}")
    trace = opened(tmp_path, with_third(deep))
    assert len(trace.events) >= 9
    assert balanced(trace)


def test_ten_thousand_nested_events_and_a_name_of_a_megabyte(tmp_path: Path) -> None:
    events = [complete("f", number, 20_000 - 2 * number, "python_function") for number in range(10_000)]
    trace = trace_of(tmp_path, [*events, complete("x" * 1_000_000, 0, 1)])
    assert trace.events.depth.max() == 9_999


def test_a_gzip_bomb_stops_at_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_trace, "ALWAYS_ALLOWED", 1 << 20)
    bomb = packed("[" + " " * (8 << 20))
    with pytest.raises(TraceError) as caught:
        opened(tmp_path, bomb)
    assert "unpacks to more than" in str(caught.value)


@pytest.mark.parametrize(("count", "told"), [(39, False), (40, True), (41, False)])
def test_an_export_of_exactly_the_limit_is_called_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, told: bool
) -> None:
    monkeypatch.setattr(assemble, "_LIMITS_OF_EXPORTERS", (40,))
    trace = trace_of(tmp_path, [complete("a", number, 0) for number in range(count)])
    assert any(each.kind == "truncated" for each in trace.quality.notes) is told


def test_mistakes_in_every_event_are_mended_and_counted(tmp_path: Path) -> None:
    events = [
        complete(f"C:/q{number}", number, 1, args={"occupancy": 0.5, "value": number}) for number in range(50)
    ]
    text = text_of(events).replace("0.5", "inf").replace("C:/q", "C:\\q")
    trace = opened(tmp_path, text)
    assert names(trace) == [f"C:\\q{number}" for number in range(50)]
    assert note(trace, "repaired-text") == (50, Effect.REPAIRED)
    assert [trace.arguments(event)["value"] for event in range(50)] == list(range(50))


def test_folders_on_windows_that_are_not_escaped_stay_folders(tmp_path: Path) -> None:
    frames = ["torch/utils/data.py(5): __next__", "torch/nn/functional.py(3029): linear"] * 30
    text = text_of([complete(name, number, 1) for number, name in enumerate([*frames, "two#lines"])])
    text = text.replace("/", "\\").replace("#", "\\n")
    assert names(opened(tmp_path, text)) == [*(each.replace("/", "\\") for each in frames), "two\nlines"]


def test_a_line_s_end_in_a_frame_stays_one_where_backslashes_are_escaped(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [complete("a\nb.py(1): f", 0, 1), complete("C:\\q.py(2): g", 1, 1)])
    assert names(trace) == ["a\nb.py(1): f", "C:\\q.py(2): g"]


def test_events_that_begin_with_an_unusual_key_are_told_apart(tmp_path: Path) -> None:
    text = TEXT.replace('{"ph"', '{"level":1,"ph"').replace('"op4"', '"op"4"')
    trace = opened(tmp_path, text)
    assert len(trace.events) == 9
    assert note(trace, "unreadable") == (1, Effect.QUARANTINED)


def test_more_events_than_memory_holds_are_refused_with_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "most_events", lambda: 5)
    monkeypatch.setattr(stream, "BYTES_AT_ONCE", 200)
    with pytest.raises(TraceError, match="more than 5 events"):
        opened(tmp_path, TEXT)


def test_more_events_than_a_packed_file_of_its_size_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BYTES_AT_ONCE", 200)
    packed_text = packed(text_of([complete("op", 1, 1)] * 400))
    assert len(opened(tmp_path, packed_text).events) == 400
    monkeypatch.setattr(chrome_trace, "FREE_EVENTS", 100)
    with pytest.raises(
        TraceError, match=r"more than 1\d\d events, far more than a recording of its size would"
    ):
        opened(tmp_path, packed_text)


def test_the_list_may_end_long_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BYTES_AT_ONCE", 300)
    files = [{"name": f"file{number}", "text": "x" * 50} for number in range(40)]
    text = TEXT[:-1] + f',"files":{json.dumps(files)},"schemaVersion":1,"distributedInfo":{{"rank":5}}}}'
    trace = opened(tmp_path, text)
    assert names(trace) == [f"op{number}" for number in range(10)]
    assert trace.ranks[0].rank == 5


def test_chunks_of_any_size_give_the_same_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [
        complete(f"op{number}", number, 1, args={"list": [{"a": 1}, {"name": 2}], "n": number})
        for number in range(33)
    ]
    for size in (1, 7, 100, 333, 2000):
        monkeypatch.setattr(stream, "BYTES_AT_ONCE", size)
        trace = trace_of(tmp_path, many)
        assert [trace.arguments(event)["n"] for event in range(33)] == list(range(33))
        assert trace.quality.quarantined == 0
