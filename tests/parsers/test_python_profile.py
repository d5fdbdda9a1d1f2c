"""What cProfile prints and saves becomes a table of functions by their own time."""

from __future__ import annotations

import cProfile
import io
import marshal
import pstats
from pathlib import Path

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
