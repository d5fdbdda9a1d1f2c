"""What cProfile prints and saves becomes a table of functions by their own time."""

from __future__ import annotations

import cProfile
import io
import marshal
import pstats
import struct
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.data_marshal import NoData, loads
from parsers.model import ResultTable, TraceError, UnknownFormat
from parsers.model.results import TimeOf

# The cases lie on either side of these.
MAX_DEPTH = 16

PRINTED = """epoch 1
         130 function calls (120 primitive calls) in 8.000 seconds

   Ordered by: cumulative time
   List reduced from 30 to 2 due to restriction <2>

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
       10    0.500    0.050    8.000    0.800 /home/me/train.py:12(step)
    30/20    6.000    0.200    6.000    0.200 {method 'run_backward' of 'torch._C._EngineBase' objects}


"""


def table_of(folder: Path, content: bytes) -> ResultTable:
    path = folder / "profile.txt"
    path.write_bytes(content)
    (table,) = open_trace([path]).tables
    return table


def test_what_python_2_saved_is_read(tmp_path: Path) -> None:
    """Its texts are bytes, and those that it met before are told by their numbers."""

    def function(name: bytes, line: int, own: float) -> bytes:
        key = b"(\x03\0\0\0s\x04\0\0\0a.pyi" + line.to_bytes(4, "little") + name
        number = b"i" + line.to_bytes(4, "little")
        seconds = b"g" + struct.pack("<d", own)
        return key + b"(\x05\0\0\0" + 2 * number + 2 * seconds + b"{0"

    step = b"t\x04\0\0\0step"
    content = b"{" + function(step, 2, 3.0) + function(b"R\0\0\0\0", 7, 1.0) + b"0"
    table = table_of(tmp_path, content)
    assert table.column("Function") == ("step (a.py:2)", "step (a.py:7)")
    assert table.column("Own time") == (3.0, 1.0)
    assert table.column("Calls") == (2.0, 7.0)
    with pytest.raises(NoData):
        loads(b"(\x01\0\0\0R\x05\0\0\0")


def recorded() -> pstats.Stats:
    with cProfile.Profile() as profile:
        sorted(range(10))
    return pstats.Stats(profile, stream=io.StringIO())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_printed_profile_tells_shares_of_the_whole_run(encoding: str, tmp_path: Path) -> None:
    table = table_of(tmp_path, PRINTED.encode(encoding))
    assert table.rows == (
        ("torch._C._EngineBase.run_backward", 30.0, 6.0, 75.0, 6.0),
        ("step (/home/me/train.py:12)", 10.0, 0.5, 6.25, 8.0),
    )
    assert [each.of for each in table.totals] == [TimeOf.PROGRAM]


def test_what_cprofile_saves_and_prints_are_the_same_functions(tmp_path: Path) -> None:
    stats = recorded()
    stats.dump_stats(tmp_path / "saved")
    saved = table_of(tmp_path, (tmp_path / "saved").read_bytes())
    out = io.StringIO()
    stats.stream = out  # type: ignore[attr-defined]
    stats.print_stats()
    printed = table_of(tmp_path, out.getvalue().encode())
    assert set(saved.column("Function")) == set(printed.column("Function"))
    assert "builtins.sorted" in saved.column("Function")
    assert len(saved.rows) == len(stats.stats) == len(printed.rows)  # type: ignore[attr-defined]
    assert sum(float(share or 0) for share in saved.column("Own share")) == pytest.approx(100.0)


def test_a_text_about_profiles_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        table_of(tmp_path, b"ncalls is the number of calls, tottime the time of the function alone\n")


_MAIN = ("/home/me/main.py", 1, "main")
_LOAD = ("/home/me/main.py", 9, "load")
_TRAIN = ("/home/me/main.py", 20, "train")
_READ = ("/usr/lib/python3.11/json/decoder.py", 3, "read")
_SCAN = ("~", 0, "<built-in method scan>")
Stats = dict[tuple[str, int, str], tuple[int, int, float, float, dict[tuple[str, int, str], Any]]]


def calls_of(*, counts_alone: bool = False) -> Stats:
    """main calls load and train; both call read of the library, load three times as long; read calls a built-in."""

    def times(calls: int, own: float, whole: float) -> Any:
        return calls if counts_alone else (calls, calls, own, whole)

    return {
        _MAIN: (1, 1, 0.5, 10.0, {}),
        _LOAD: (1, 1, 0.5, 6.5, {_MAIN: times(1, 0.5, 6.5)}),
        _TRAIN: (1, 1, 1.0, 3.0, {_MAIN: times(1, 1.0, 3.0)}),
        _READ: (
            4,
            4,
            4.0,
            8.0,
            {_LOAD: times(3, 3.0, 6.0), _TRAIN: times(1, 1.0, 2.0), _READ: times(1, 0.0, 0.0)},
        ),
        _SCAN: (4, 4, 4.0, 4.0, {_READ: times(4, 4.0, 4.0)}),
    }


def table_with_libraries(folder: Path, stats: Stats) -> ResultTable:
    path = folder / "saved.prof"
    path.write_bytes(marshal.dumps(stats))
    return open_trace([path]).tables[1]


@pytest.mark.parametrize("counts_alone", [False, True])
def test_time_of_libraries_belongs_to_the_own_functions_that_called_them(
    counts_alone: bool, tmp_path: Path
) -> None:
    path = tmp_path / "saved.prof"
    path.write_bytes(marshal.dumps(calls_of(counts_alone=counts_alone)))
    functions, own = open_trace([path]).tables
    assert len(functions.rows) == 5
    assert own.rows == (
        ("load (/home/me/main.py:9)", 6.5, 65.0, "read (/usr/lib/python3.11/json/decoder.py:3)", 6.0),
        ("train (/home/me/main.py:20)", 3.0, 30.0, "read (/usr/lib/python3.11/json/decoder.py:3)", 2.0),
        ("main (/home/me/main.py:1)", 0.5, 5.0, None, None),
    )


@pytest.mark.parametrize("folder", ["", "/usr/lib/python3.11/"])
def test_without_folders_or_own_functions_there_is_one_table(folder: str, tmp_path: Path) -> None:
    def moved(key: tuple[str, int, str]) -> tuple[str, int, str]:
        return (key[0] if key[0] == "~" else folder + key[0].rpartition("/")[2], *key[1:])

    stats = {
        moved(key): (*rest[:4], {moved(caller): times for caller, times in rest[4].items()})
        for key, rest in calls_of().items()
    }
    table_of(tmp_path, marshal.dumps(stats))


def test_functions_of_libraries_that_call_each_other_have_no_end(tmp_path: Path) -> None:
    other = ("/usr/lib/python3.11/json/scanner.py", 5, "scan")
    stats = calls_of()
    stats[_READ][4][other] = (1, 1, 0.0, 1.0)
    stats[other] = (1, 1, 0.0, 1.0, {_READ: (1, 1, 0.0, 1.0)})
    path = tmp_path / "saved.prof"
    path.write_bytes(marshal.dumps(stats))
    _, own = open_trace([path]).tables
    assert own.column("With its libraries") == pytest.approx((6.5, 3.0, 0.5), abs=0.01)


@pytest.mark.parametrize(("deep", "arrives"), [(200, True), (201, False)])
def test_two_hundred_functions_of_libraries_may_call_one_another(
    deep: int, arrives: bool, tmp_path: Path
) -> None:
    """The innermost one takes all the time."""
    library = [("/usr/lib/python3.11/json/decoder.py", line, "read") for line in range(1, deep + 1)]
    times = (1, 1, 1.0, 10.0)
    stats: Stats = {_MAIN: (1, 1, 1.0, 11.0, {})}
    for caller, function in zip([_MAIN, *library], library, strict=False):
        stats[function] = (1, 1, 10.0 * (function == library[-1]), 10.0, {caller: times})
    (own,) = table_with_libraries(tmp_path, stats).column("With its libraries")
    assert own == (11.0 if arrives else 1.0)


def test_of_what_libraries_call_in_circles_a_ten_thousandth_may_be_left(tmp_path: Path) -> None:
    """Half of the time arrives in each round, the rest goes back."""
    other = ("/usr/lib/python3.11/json/scanner.py", 5, "scan")
    half = (1, 1, 5.0, 5.0)
    stats: Stats = {
        _MAIN: (1, 1, 1.0, 11.0, {}),
        _READ: (2, 2, 10.0, 10.0, {_MAIN: half, other: half}),
        other: (1, 1, 0.0, 5.0, {_READ: half}),
    }
    (own,) = table_with_libraries(tmp_path, stats).column("With its libraries")
    assert isinstance(own, float)
    assert 0.5e-4 * 11 < 11.0 - own < 1e-4 * 11


@pytest.mark.parametrize("at", [7, 30, -3])
def test_a_saved_profile_that_is_cut_is_refused(at: int, tmp_path: Path) -> None:
    whole = marshal.dumps(
        {("a.py", 1, "work"): (1, 1, 0.5, 0.5, {}), ("b.py", 2, "rest"): (1, 1, 1.0, 1.0, {})}
    )
    with pytest.raises(TraceError):
        table_of(tmp_path, whole[:at])


def test_marshal_data_is_read_as_python_reads_it() -> None:
    data = {
        ("a", 1, "\xe4"): (2, -3, 1 << 70, -(1 << 40), 0.25, None, True, {}),
        "r\xfcck": ("a", "a"),
        (): False,
    }
    assert loads(marshal.dumps(data)) == data
    assert loads(marshal.dumps(data, 2)) == data


def test_code_and_depth_are_no_data() -> None:
    with pytest.raises(NoData):
        loads(marshal.dumps(compile("1", "a", "eval")))
    deep: object = ()
    for _ in range(MAX_DEPTH):
        deep = (deep,)
    assert loads(marshal.dumps(deep)) == deep
    with pytest.raises(NoData):
        loads(marshal.dumps((deep,)))
    with pytest.raises(NoData):
        loads(b"(\xff\xff\xff\x7fN")


def test_numbers_and_lists_that_no_profile_holds_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loads(marshal.dumps((1 << 120) - 1)) == (1 << 120) - 1
    with pytest.raises(NoData):
        loads(marshal.dumps(1 << 120))
    monkeypatch.setattr("parsers.data_marshal.MAX_OBJECTS", 4)
    assert loads(marshal.dumps((1, 2, 3))) == (1, 2, 3)
    with pytest.raises(NoData):
        loads(marshal.dumps((1, 2, 3, 4)))


def test_what_another_profiler_saw_is_no_time_of_starting_it(tmp_path: Path) -> None:
    inside = "       10    2.000    0.200    2.000    0.200 {method 'enable' of '_lsprof.Profiler' objects}\n"
    head, rows = PRINTED.split("       10    0.500", 1)
    table = table_of(tmp_path, f"{head}{inside}       10    0.500{rows}".encode())
    assert table.column("Own share")[0] == 100.0
    assert table.totals[0].whole == 6.0
    assert len(table.rows) == 2


def test_a_long_table_behind_the_output_of_the_program_is_found_by_its_rows(tmp_path: Path) -> None:
    row = "        1    0.001    0.001    0.001    0.001 train.py:{}(step)\n"
    long = PRINTED.rstrip("\n") + "\n" + "".join(row.format(line) for line in range(1, 2_000))
    table = table_of(tmp_path, ("epoch 1\n" * 10_000 + long).encode())
    assert len(table.rows) == 2_001
