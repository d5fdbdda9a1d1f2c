"""Tables that profilers print behind a program's own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, Trace, UnknownFormat
from parsers.model.results import TimeOf

TORCH = """epoch 1: loss 0.3
-------------  ------------  ------------  ------------
         Name    Self CPU %     CPU total    # of Calls
-------------  ------------  ------------  ------------
     aten::mm        56.47%       9.502s          7800
    aten::add         0.25%      42.10us             7
-------------  ------------  ------------  ------------
Self CPU time total: 17.807s
"""


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def rows(table: ResultTable) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.rows]


def test_what_torch_prints_ends_with_its_last_rule(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, TORCH).tables
    assert table.title == "Operators of torch.profiler"
    assert rows(table) == [("aten::mm", 56.47, 9_502_000.0, 7800), ("aten::add", 0.25, 42.1, 7)]
    assert [each.unit for each in table.columns] == ["", "%", "us", ""]


def test_what_a_windows_shell_wrote_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(TORCH.encode("utf-16"))
    (table,) = open_trace([tmp_path / "job.log"]).tables
    assert table.column("Name") == ("aten::mm", "aten::add")


BOX = """Using a.sqlite for SQL queries.
 ** CUDA API Summary (cuda_api_sum):

+----------+-----------------+-----------+------------------+
| Time (%) | Total Time (ns) | Num Calls |       Name       |
+----------+-----------------+-----------+------------------+
|     75.0 |       3,000,000 |       600 | cudaLaunchKernel |
|     25.0 |       1,000,000 |         4 | cudaMalloc       |
+----------+-----------------+-----------+------------------+
done
"""


def test_a_table_in_a_box_is_one(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, BOX).tables
    assert [each.name for each in table.columns] == ["Time", "Total Time", "Num Calls", "Name"]
    assert rows(table) == [
        (75.0, 3_000_000.0, 600.0, "cudaLaunchKernel"),
        (25.0, 1_000_000.0, 4.0, "cudaMalloc"),
    ]
    assert len(opened(tmp_path, BOX + BOX).tables) == 2
    (cut,) = opened(tmp_path, BOX[: BOX.index("|     25.0")]).tables
    assert len(cut.rows) == 1


def test_without_its_header_a_text_is_no_table(tmp_path: Path) -> None:
    lines = [line for line in TORCH.splitlines() if "Self CPU %" not in line]
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "\n".join(lines))


def gpu_rows(*told: tuple[str, str, str]) -> str:
    """A table of torch.profiler with the CPU's and the GPU's own time of each row."""
    rule = "--------------" + "  ------------" * 6
    header = (
        "          Name    Self CPU %      Self CPU     CPU total     Self CUDA   Self CUDA %    # of Calls"
    )
    rows = [
        f"{name:>14}{'1.00%':>14}{cpu:>14}{cpu:>14}{gpu:>14}{'5.00%':>14}{'2':>14}"
        for name, cpu, gpu in (*told, ("aten::view", "1.0us", "0.000us"))
    ]
    return "\n".join(
        [rule, header, rule, *rows, rule, "Self CPU time total: 9.000s", "Self CUDA time total: 4.000s\n"]
    )


def counted(folder: Path, *told: tuple[str, str, str]) -> list[str]:
    """The rows whose GPU time counts."""
    (table,) = opened(folder, gpu_rows(*told)).tables
    totals = next(each for each in table.totals if each.of is TimeOf.GPU)
    return [str(row[0]) for index, row in enumerate(table.rows[:-1]) if index not in totals.without]


def test_all_time_is_what_torch_states_below_the_table(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, gpu_rows(("aten::mm", "1.0ms", "2.0ms"))).tables
    assert {each.of: each.whole for each in table.totals} == {TimeOf.CPU: 9e6, TimeOf.GPU: 4e6}


@pytest.mark.parametrize(("gpu", "is_said"), [("0.000us", False), ("-1.000us", True)])
def test_times_that_were_taken_between_events_are_left_out_and_that_is_said(
    gpu: str, is_said: bool, tmp_path: Path
) -> None:
    trace = opened(tmp_path, gpu_rows(("aten::mm", "1.0ms", "2.0ms"), ("aten::slice", "1.0ms", gpu)))
    assert any("between events" in note.reason for note in trace.quality.notes) is is_said
    assert [each.of for each in trace.tables[0].totals] == [TimeOf.CPU, *([] if is_said else [TimeOf.GPU])]


def test_ranges_and_kernels_of_operators_state_time_that_other_rows_state(tmp_path: Path) -> None:
    told = (
        ("forward", "0.000us", "3.0ms"),
        ("forward", "5.0ms", "0.000us"),
        ("ProfilerStep*", "0.000us", "3.5ms"),
        ("aten::mm", "1.0ms", "2.0ms"),
        ("gemm", "0.000us", "2.0ms"),
    )
    assert counted(tmp_path, *told) == ["forward", "aten::mm"]


@pytest.mark.parametrize(("operators", "names"), [("1.80ms", ["aten::mm"]), ("1.79ms", ["gemm"])])
def test_kernels_count_where_their_operators_were_not_all_printed(
    operators: str, names: list[str], tmp_path: Path
) -> None:
    assert counted(tmp_path, ("aten::mm", "1.0ms", operators), ("gemm", "0.000us", "2.00ms")) == names


def test_copies_are_told_by_their_direction(tmp_path: Path) -> None:
    told = (("aten::copy_", "1.0ms", "2.0ms"), ("Memcpy DtoH", "0.000us", "2.0ms"))
    assert counted(tmp_path, *told) == ["Memcpy DtoH"]
    assert counted(tmp_path, told[0]) == ["aten::copy_"]


def test_calls_of_hip_are_no_work_of_the_gpu(tmp_path: Path) -> None:
    table = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"{}",3,900,300,90.0\n'
    of = [
        opened(tmp_path, table.format(name)).tables[0].totals[0].of
        for name in ("hipFree", "gemm", "__hipPop")
    ]
    assert of == [TimeOf.CALLS, TimeOf.GPU, TimeOf.CALLS]


def test_a_table_behind_long_output_of_the_program_is_found(tmp_path: Path) -> None:
    output = "epoch 1: loss 0.3\n" * 10_000
    (table,) = opened(tmp_path, output + TORCH).tables
    assert table.column("Name") == ("aten::mm", "aten::add")


def test_a_long_file_that_is_no_text_has_no_table_behind_it(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "epoch 1: loss 0.3\n" * 10_000 + "\0" + TORCH)


def summary(*rows: tuple[str, str, str]) -> str:
    """A summary of nsys stats: percent, ns, calls."""
    lines = (f" {share:>8}  {time:>15}  {calls:>9}  cudaMalloc" for share, time, calls in rows)
    rule = f" {'-' * 8}  {'-' * 15}  {'-' * 9}  {'-' * 10}"
    return "\n".join([" Time (%)  Total Time (ns)  Num Calls  Name      ", rule, *lines, "", ""])


@pytest.mark.parametrize(
    ("row", "numbers"),
    [
        (("52,0", "43.985.471", "27"), (52.0, 43_985_471.0, 27.0)),
        (("52", "43.985.471", "1.027"), (52.0, 43_985_471.0, 1_027.0)),  # two groups are no decimals
        (("5,2500", "1.705", "27"), (5.25, 1_705.0, 27.0)),
        (("0,250", "1.705", "27"), (0.25, 1_705.0, 27.0)),  # no group of three stands behind a 0
        (("52", "1.234,567", "27"), (52.0, 1_234.567, 27.0)),
        (("52.0", "43,985,471", "1,027"), (52.0, 43_985_471.0, 1_027.0)),
        (("52", "1.705", "1,027"), (52.0, 1.705, 1_027.0)),  # nothing tells: as it is usual
        (("52,0", "1.705", "27"), (52.0, 1_705.0, 27.0)),
        (("52.0", "44,0087,8248", "1,2975"), (52.0, 440_087_8248.0, 12_975.0)),  # in groups of four
        (("52", "32,3999.0", "1,2975"), (52.0, 323_999.0, 12_975.0)),
        (("52", "17", "1,2975"), (52.0, 17.0, 1.2975)),  # nothing tells groups from decimals
    ],
)
def test_numbers_are_read_as_their_table_writes_them(
    row: tuple[str, str, str], numbers: tuple[float, float, float], tmp_path: Path
) -> None:
    (table,) = opened(tmp_path, summary(row)).tables
    assert rows(table) == [(*numbers, "cudaMalloc")]


def test_a_table_that_does_not_tell_has_the_decimals_of_the_one_before(tmp_path: Path) -> None:
    unclear = summary(("52", "1.705", "27"))
    commas, points = summary(("52,0", "17", "27")), summary(("52.0", "17", "27"))
    both = summary(("52,0", "17", "27"), ("48.0", "1,027", "27"))  # not of one place: as it is usual
    text = "".join((unclear, commas, unclear, points, unclear, commas, both))
    told = [table.column("Total Time") for table in opened(tmp_path, text).tables]
    assert told == [(1.705,), (17.0,), (1_705.0,), (17.0,), (1.705,), (17.0,), (17.0, 1_027.0)]


def test_a_table_in_a_box_may_have_commas_too(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, BOX.translate(str.maketrans(",.", ".,"))).tables
    assert table.column("Time") == (75.0, 25.0)
    assert table.column("Total Time") == (3_000_000.0, 1_000_000.0)
