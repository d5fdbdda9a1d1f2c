"""What gprof and perf stat print of a program on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, UnknownFormat
from parsers.model.results import TimeOf

STAT = """solved

 Performance counter stats for './solve 5' (3 runs):

         18,066.69 msec task-clock                #    0.888 CPUs utilized            ( +-  1.38% )
    46,455,893,977      cycles                    #    2.571 GHz                      (29.45%)
    89,389,808,818      instructions              #    1.92  insn per cycle
       172,716,651      branch-misses             #    0.74% of all branches
   <not supported>      LLC-loads

      20.355726461 +- 0.1 seconds time elapsed

 Performance counter stats for 'ls':

                12      page-faults
"""


def tables_of(folder: Path, text: str) -> tuple[ResultTable, ...]:
    (folder / "out.txt").write_text(text)
    return open_trace([folder / "out.txt"]).tables


def test_functions_of_gprof_share_the_time_of_all(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "stacks" / "loop.gprof.txt"]).tables
    assert table.rows == (
        ("solve(int, double*)", 6400.0, 0.14, 63.74),
        ("fill(double*)", 6400.0, 0.08, 36.42),
    )
    assert [(each.of, each.whole) for each in table.totals] == [(TimeOf.CPU, 0.22)]


def test_functions_that_were_not_called_by_others_state_no_calls(tmp_path: Path) -> None:
    header = " time   seconds   seconds    calls  us/call  us/call  name\n"
    rows = "  60.00  3.00  3.00   main\n  0.00  3.00  0.00  9 0.00 0.00 f\n"
    text = f"  %   cumulative   self              self     total\n{header}{rows}"
    (table,) = tables_of(tmp_path, text)
    assert table.rows == (("main", None, 3.0, 60.0),)


def test_a_real_perf_stat_is_told(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "stacks" / "loop.perf_stat.txt"]).tables
    assert table.title == "perf stat of ./loop: 0.241 CPUs busy, 11.5 s"
    assert table.column("Event") == ("task-clock", "page-faults", "context-switches")


def test_the_title_of_perf_stat_says_how_busy_the_cpu_was(tmp_path: Path) -> None:
    counted, short = tables_of(tmp_path, STAT)
    assert counted.title == "perf stat of ./solve 5: 0.888 CPUs busy, 1.92 instructions a cycle, 20.4 s"
    assert counted.rows[0] == ("task-clock", 18_066.69, "msec", 0.888, "CPUs utilized")
    assert counted.rows[3] == ("branch-misses", 172_716_651.0, None, 0.74, "% of all branches")
    assert len(counted.rows) == 4
    assert short.title == "perf stat of ls"


@pytest.mark.parametrize(
    "text", ["time and seconds, calls and a name\n", "See the Performance counter stats for 'ls' below\n"]
)
def test_texts_about_these_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, text)
