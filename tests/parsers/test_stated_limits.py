"""How much of a format is read, and what of it is believed, each with a case on either side."""

from __future__ import annotations

import io
import json
import os
import pickle  # noqa: TID251 - to write what is read as data
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers import csv_tables, data_pickle, open_trace, opening
from parsers.compiler.log_lines import LogLines, Record
from parsers.compiler.records import Compilation, CompilerLog, _Metrics
from parsers.csv_tables import read_csv
from parsers.data_pickle import TooMuch, read_data
from parsers.files import containers, fetched
from parsers.files.base import Source
from parsers.files.packed import ZstdStream
from parsers.files.signatures import ZSTD
from parsers.flight.dump import EntryReader
from parsers.formats.amd.amd_smi_log import AmdSmiLog, _times
from parsers.formats.cpu_profilers import perf, speedscope
from parsers.formats.cpu_profilers.line_profile import _functions, _Line, _table
from parsers.formats.nvidia.ncu import NsightComputeCsv
from parsers.formats.nvidia.smi_log import _lines
from parsers.formats.proton_profiles import _INDENT, _Scope, _scope_table
from parsers.formats.pytorch import memory_snapshot
from parsers.formats.pytorch.compiler_log import CompilerLogs
from parsers.formats.pytorch.execution_trace import Node, Operators
from parsers.formats.results import serving
from parsers.formats.results.training_log import _SORTS, _of_iterations
from parsers.json_lists import JsonLists
from parsers.model import Progress, QualityRecorder, ResultTable, TraceError
from parsers.model.builder import TraceBuilder
from parsers.model.errors import Excessive
from parsers.model.results import CALLED_BY
from tests.parsers.claimed import ClaimedBytes, ClaimedDict, ClaimedList
from tests.parsers.snapshots import Snapshot

MB, S = 1 << 20, 1_000_000_000


def blocks(*content: bytes) -> Any:
    """A stream that gives these blocks."""
    rest = iter(content)
    return SimpleNamespace(read=lambda *_: next(rest, b""), damage="")


@pytest.mark.parametrize(("size", "is_read"), [(4 * MB, True), (4 * MB + 1, False)])
def test_the_lines_of_a_compiler_log_have_four_megabytes(size: int, is_read: bool) -> None:
    lines = LogLines()
    found = list(lines._lines(blocks(ClaimedBytes(b"", 0) + b"x" * size, b"\nnext\n")))
    assert len(found) == 1 + is_read
    assert lines.too_long == (not is_read)


@pytest.mark.parametrize(("size", "added"), [(65_534, 2), (65_535, 1)])
def test_of_a_record_in_the_lines_of_a_compiler_log_64_kilobytes_are_looked_at(size: int, added: int) -> None:
    record = Record(0, None, b"", "")
    record.add(b"x" * size)
    record.add(b"y")
    assert len(record.lines) == added


def test_of_one_line_of_a_compiler_log_64_kilobytes_are_looked_at() -> None:
    record = Record(0, None, b"", "")
    record.add(b"x" * 65_537)
    assert len(record.payload) == 65_536


def test_the_records_of_a_compiler_log_tell_the_time_zone_to_a_quarter_of_an_hour() -> None:
    log = CompilerLog([Compilation("0/0", "f", "", 4_800 * S, 0, 0.0)])
    assert log.clock_ns == 4_500 * S


@pytest.mark.parametrize(("days", "damaged"), [(30, 0), (30.1, 1)])
def test_the_records_of_a_compiler_log_tell_of_30_days(days: float, damaged: int) -> None:
    log = CompilerLog()
    log._add_metrics(_Metrics(entire_frame_compile_time_s=days * 86_400), "0/0", 0)
    assert log.damaged == damaged


@pytest.mark.parametrize(("before", "recognised"), [(199, True), (200, False)])
def test_a_compiler_log_shows_in_200_lines(before: int, recognised: bool) -> None:
    begun = b'V1130 10:00:00.000000 7 torch/_dynamo/a.py:1] {"dynamo_start": {}}'
    head = b"\n".join([b"line"] * before + [begun])
    assert CompilerLogs().recognises(Source(Path("log"), head)) is recognised


def test_of_a_table_100000_rows_with_commas_in_a_name_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def opened(_: object, *, parse_options: Any, **__: object) -> list[Any]:
        for number in range(100_001):
            parse_options.invalid_row_handler(SimpleNamespace(number=number, text=""))
        return []

    monkeypatch.setattr(csv_tables, "_with_commas", lambda *_: asked.append(1))
    monkeypatch.setattr("pyarrow.csv.open_csv", opened)
    path = tmp_path / "table.csv"
    path.write_bytes(b"Name,Time\n")
    read_csv(Source(path, path.read_bytes()), QualityRecorder(), Progress())
    assert len(asked) == 100_000


@pytest.mark.parametrize(("entries", "is_read"), [(63, True), (64, False)])
def test_a_data_pickle_counts_the_entries_of_a_table_of_64(
    entries: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [each for number in range(entries) for each in (number, 0)]
    monkeypatch.setattr(data_pickle, "_referred", lambda *_: items)
    content = b"\x80\x04](" + (b"}(" + b"h\0" * 4 + b"u") * 3_300 + b"e."
    if is_read:
        assert len(read_data(content)) == 3_300
    else:
        with pytest.raises(TooMuch, match="tables"):
            read_data(content)


@pytest.mark.parametrize(("count", "is_read"), [(60_000_000, True), (60_000_001, False)])
def test_a_data_pickle_holds_60_million_values(count: int, is_read: bool) -> None:
    if is_read:
        data_pickle._require_room(ClaimedList(count))
    else:
        with pytest.raises(TooMuch, match="60,000,000 values"):
            data_pickle._require_room([], ClaimedList(count))


@pytest.mark.parametrize(("count", "is_read"), [(12_000_000, True), (12_000_001, False)])
def test_a_data_pickle_holds_12_million_tables(
    count: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is. Here it has one, which counts as one more for each entry."""
    monkeypatch.setattr(data_pickle, "_referred", lambda *_: ClaimedList(2 * (count - 65)))
    entries = b"".join(b"K%cK\0" % number for number in range(64))
    content = ClaimedBytes(b"\x80\x04}(" + entries + b"u(" + b"h\0" * 4 + b"u.", 1 << 40)
    if is_read:
        assert len(read_data(content)) == 64
    else:
        with pytest.raises(TooMuch, match="12,000,000 tables"):
            read_data(content)


@pytest.mark.parametrize(("count", "is_read"), [(20_000, True), (20_001, False)])
def test_the_containers_of_recordings_hold_20000_files(
    count: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class File:
        name = "f"

        def is_file(self) -> bool:
            return True

        def __lt__(self, _: object) -> bool:
            return False

        def relative_to(self, _: object) -> str:
            return "f"

    class Folder(type(Path())):  # type: ignore[misc]
        def rglob(self, _: str) -> list[File]:
            return [File()] * count

    monkeypatch.setattr(containers, "identify", lambda *_: None)
    folder = Folder("folder")
    if is_read:
        assert len(containers._folder(folder).sources) == count
    else:
        with pytest.raises(TraceError, match="This folder holds 20,001 files"):
            containers._folder(folder)


@pytest.mark.parametrize(("bytes_more", "kept"), [(0, {"new", "old"}), (1, {"new"})])
def test_fetched_copies_stay_within_20_gigabytes(
    bytes_more: int, kept: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, name in enumerate(("old", "new")):
        with (tmp_path / name).open("wb") as file:
            file.truncate(10_000_000_000 + bytes_more * at)
        os.utime(tmp_path / name, (1_000 + at, 1_000 + at))
    monkeypatch.setattr(fetched, "folder", lambda: tmp_path)
    fetched.trim(tmp_path / "new")
    assert {file.name for file in tmp_path.iterdir()} == kept


def test_packed_files_look_back_two_gigabytes(tmp_path: Path) -> None:
    """As ``zstd --long=31`` packs them."""
    path = tmp_path / "packed.zst"
    window = (31 - 10) << 3
    path.write_bytes(ZSTD + bytes((0, window)) + (3 << 3 | 1).to_bytes(3, "little") + b"abc")
    with ZstdStream(path) as stream:
        assert stream.read(10) == b"abc"


@pytest.mark.parametrize(("before", "elements"), [(63, 2), (64, 1)])
def test_a_shape_in_a_dump_has_64_dimensions(before: int, elements: int) -> None:
    assert EntryReader({})._elements_of_shape([1] * before + [2]) == elements


@pytest.mark.parametrize(
    ("titles", "recognised"), [("gpu,power_usage,gfx_clock", True), ("gpu,power_usage", False)]
)
def test_an_amd_smi_log_has_two_known_columns(titles: str, recognised: bool) -> None:
    assert AmdSmiLog().recognises(Source(Path("log.csv"), titles.encode() + b"\n")) is recognised


@pytest.mark.parametrize(("second", "is_dated"), [((1 << 33) - 1, True), (1 << 33, False)])
def test_an_amd_smi_log_states_times_until_2242(second: int, is_dated: bool) -> None:
    class Table:
        length = 1

        def __contains__(self, _: object) -> bool:
            return True

        def numbers(self, _: str) -> Any:
            return np.array([float(second)])

    assert _times(cast(Any, Table()), np.zeros(1), np.ones(1, bool))[1] is is_dated


def test_a_line_profile_shows_200_characters_of_code() -> None:
    text = (
        "Timer unit: 1e-06 s\nTotal time: 1 s\nFile: a.py\nFunction: f at line 1\n"
        "Line #      Hits         Time  Per Hit   % Time  Line Contents\n"
        "     1         1          1.0      1.0    100.0  "
    )
    lines = f"{text}{'c' * 201}".splitlines()
    (function,) = _functions(lines)
    assert function.rows[0][-1] == "c" * 200
    line = _Line(1, "c" * 201, n_cpu_percent_python=1.0)
    profile = SimpleNamespace(
        files={"a.py": SimpleNamespace(lines=[line], functions=[])}, elapsed_time_sec=1.0
    )
    assert _table(cast(Any, profile)).rows[0][-1] == "c" * 200


@pytest.mark.parametrize(("size", "is_read"), [(512 * MB, True), (512 * MB + 1, False)])
def test_perf_prints_512_megabytes(size: int, is_read: bool) -> None:
    stream = blocks(ClaimedBytes(b"a\n", size))
    if is_read:
        assert list(perf._lines(stream, Source(Path("p"), b""))) == [b"a"]
    else:
        with pytest.raises(TraceError, match="larger than 512 MB"):
            list(perf._lines(stream, Source(Path("p"), b"")))


def test_perf_prints_lines_of_64_kilobytes() -> None:
    (line,) = perf._lines(blocks(b"x" * 65_537), Source(Path("p"), b""))
    assert len(line) == 65_536


@pytest.mark.parametrize(("ns", "is_kept"), [((1 << 60) - 1024, True), (1 << 60, False)])
def test_speedscope_states_times_of_36_years(ns: int, is_kept: bool) -> None:
    profile = speedscope._Profile("sampled", unit="nanoseconds", samples=[[0]], weights=[float(ns)])
    builder = TraceBuilder()
    speedscope._add_samples(builder, profile, np.zeros(1, np.int32), 1)
    assert (builder.quality.quality().quarantined == 0) is is_kept


@pytest.mark.parametrize(("zeros", "recognised"), [(100, True), (101, False)])
def test_a_page_of_ncu_has_a_zero_in_a_hundred_characters_at_most(zeros: int, recognised: bool) -> None:
    head = (b"    Section: GPU Speed Of Light\n" + b"\0" * zeros).ljust(10_000)
    assert NsightComputeCsv().recognises(Source(Path("page.txt"), head)) is recognised


def test_a_line_of_an_smi_log_has_64_kilobytes() -> None:
    assert [len(line) for line in _lines(io.BytesIO(b"x" * 65_537), b"")] == [65_536, 1]


@pytest.mark.parametrize(("depth", "indented"), [(60, 60), (61, 60)])
def test_proton_profiles_are_shown_60_scopes_deep(depth: int, indented: int) -> None:
    top = _Scope("top", 0, 2.0, [_Scope("inner", depth, 1.0)])
    table = _scope_table(top, "time", TraceBuilder())
    assert str(table.rows[0][0]) == _INDENT * indented + "inner"


@pytest.mark.parametrize(("count", "is_read"), [(1_000_000, True), (1_000_001, False)])
def test_an_execution_trace_holds_a_million_different_calls(count: int, is_read: bool) -> None:
    operators = Operators(_kinds=ClaimedDict(count))
    if is_read:
        operators.add_nodes([])
    else:
        with pytest.raises(Excessive):
            operators.add_nodes([])


def test_an_execution_trace_tells_six_callers() -> None:
    operators = Operators()
    operators.add_nodes(Node(number, f"aten::n{number}", number - 1) for number in range(1, 10))
    rows = operators.tables(TraceBuilder())[0].rows
    told = {str(row[0]): str(row[1]) for row in rows}
    assert told["aten::n9"].split(CALLED_BY) == [f"aten::n{number}" for number in range(8, 2, -1)]


class Reached(Exception):
    """What would be read next."""


@pytest.mark.parametrize(("size", "error"), [(4 << 30, Reached), ((4 << 30) + 1, TraceError)])
def test_a_memory_snapshot_has_four_gigabytes(
    size: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_: object) -> None:
        raise Reached

    path = tmp_path / "snapshot.pickle"
    with path.open("wb") as file:
        file.truncate(size)
    monkeypatch.setattr(memory_snapshot, "open_bytes", opened)
    with pytest.raises(error):
        memory_snapshot._decoded(Source(path, b""), cast(Any, None), Progress())


def test_the_memory_of_a_snapshot_is_given_in_blocks_of_512_bytes(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 4096, 1_100, 10)
    snapshot.event("free_completed", 4096, 1_100, 20)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot.content(), 4))
    assert open_trace([path]).memory[0].allocations.size.tolist() == [1_536]


def test_serving_logs_hold_100000_requests(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []

    def table(_: str, kept: list[Any]) -> ResultTable:
        shown.append(len(kept))
        return ResultTable("", (), ())

    monkeypatch.setattr(serving, "_requests", lambda *_: [SimpleNamespace(arrival=0)] * 100_001)
    monkeypatch.setattr(serving, "_table", table)
    open_trace([fixtures / "results" / "requests.jsonl"])
    assert shown == [100_000]


def test_serving_models_have_names_of_200_characters() -> None:
    entry = SimpleNamespace(id=1, model_name="m" * 201, timestamps=())
    (request,) = serving._triton_requests(cast(Any, [entry]), Progress())
    assert request.model == "m" * 200


@pytest.mark.parametrize(("begin", "known"), [(10**18, True), (10**18 - 1, False)])
def test_serving_times_from_2001_on_are_of_the_wall_clock(begin: int, known: bool, tmp_path: Path) -> None:
    moments = [{"name": "REQUEST_START", "ns": begin}, {"name": "REQUEST_END", "ns": begin + 5_000}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{"id": 1, "model_name": "m"}, {"id": 1, "timestamps": moments}]))
    assert (open_trace([path]).epoch_ns is not None) is known


@pytest.mark.parametrize(("waited", "tables"), [(0.5, 2), (0.49, 1)])
def test_a_training_log_has_parts_where_half_of_the_time_is_waited_for(waited: float, tables: int) -> None:
    text = f"[ 1/9] time: 1.0 data: {waited}\n" * 4
    assert len(list(_of_iterations(_SORTS[1], text))) == tables


def test_the_elements_of_json_lists_have_64_megabytes() -> None:
    file = blocks(b'{"nodes":[', ClaimedBytes(b" ", 64 * MB), b" ", b"1]}")
    lists = JsonLists(file, {"nodes"}, 2, 1)
    assert list(lists.pieces()) == []
    assert lists.damage == "an element of a list is impossibly long"
    assert file.read() == b"1]}"


@pytest.mark.parametrize(("spaces", "is_found"), [(192, True), (193, False)])
def test_the_keys_of_json_lists_stand_within_200_bytes(spaces: int, is_found: bool) -> None:
    lists = JsonLists(blocks(b'{"nodes":' + b" " * spaces + b"[1]}"), {"nodes"}, 2, 1)
    assert bool(list(lists.pieces())) is is_found


@pytest.mark.parametrize(("count", "is_refused"), [(1_024, False), (1_025, True)])
def test_opening_1024_recordings_at_once(
    count: int, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "contents", lambda *_: SimpleNamespace(skipped=[]))
    monkeypatch.setattr(opening, "recordings_of", lambda _: ClaimedList(count))
    with pytest.raises(TraceError) as refused:
        opening.open_run([tmp_path], None, False)
    assert ("at most 1,024" in str(refused.value)) is is_refused
