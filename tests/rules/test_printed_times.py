"""Tables that a profiler printed say what takes the GPU's, the CPU's and the program's time."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultColumn, ResultTable
from parsers.model.builder import TraceBuilder
from parsers.model.results import Cell, TimeOf, Totals, titled
from parsers.table_totals import totals_of
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.verdict.verdict import verdict
from rules.wording.words import shortened

NVPROF = ("Type", "Time(%)", "Time (us)", "Calls", "Avg (us)", "Name")


def summary(*rows: tuple[str, float, float, str]) -> ResultTable:
    """Rows of nvprof: type, share, us, name; each was called five times."""
    made: list[tuple[Cell, ...]] = [(kind, share, us, 5.0, us / 5, name) for kind, share, us, name in rows]
    columns = tuple(ResultColumn(title, "us" if "us" in title else "") for title in NVPROF)
    return ResultTable("Summary of nvprof", columns, tuple(made), totals=totals_of(NVPROF, made))


def of(unit: str, whose: TimeOf, *rows: tuple[Cell, ...]) -> ResultTable:
    columns = (ResultColumn("Name"), ResultColumn("Time", unit), ResultColumn("Share", "%"))
    return ResultTable("table", columns, rows, totals=(Totals(whose, 0, 1 if unit else -1, 2),))


def told(*tables: ResultTable) -> tuple[str, str]:
    builder = TraceBuilder()
    builder.tables += tables
    analysis = Analysis(builder.build())
    diagnosis = diagnosis_of(analysis)
    account = next((each.account for each in diagnosis.findings if each.rule == "printed-times"), "")
    return verdict(analysis, diagnosis), str(account)


GPU = (
    ("GPU activities", 75.0, 3000.0, "gemm(float*, int)"),
    ("GPU activities", 25.0, 1000.0, "[CUDA memcpy HtoD]"),
)


def test_the_gpu_is_told_first_while_calls_only_wait_for_it() -> None:
    waits = (
        ("API calls", 99.0, 90_000.0, "cudaDeviceSynchronize"),
        ("API calls", 1.0, 900.0, "cudaLaunchKernel"),
    )
    title, account = told(summary(*GPU, *waits))
    assert title == "75 % of the GPU's time is in gemm(float*, int)"
    assert "The GPU worked for 4.00 ms in all" in account
    assert "99 % in cudaDeviceSynchronize" in account


@pytest.mark.parametrize(("faults_us", "told_first"), [(1_010.0, True), (990.0, False)])
def test_page_faults_that_take_a_quarter_of_the_gpu_s_time_are_told_first(
    faults_us: float, told_first: bool
) -> None:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Host To Device", 30.0, 8_400_000.0, 700.0),
        ("Gpu page fault groups", 5.0, None, faults_us),
    )
    columns = titled("Unified memory", "Count", "Total Size (B)", "Total Time (us)")
    title, _ = told(summary(*GPU), ResultTable("Unified memory of nvprof", columns, rows))
    assert (title == "75 % of the GPU's time is in gemm(float*, int)") is not told_first
    expected = (
        "Kernels wait for pages of unified memory: 1.01 ms of page faults beside 4.00 ms of the GPU's work"
    )
    assert (title == expected) is told_first


def test_calls_that_take_longer_than_the_gpu_works_are_told_first() -> None:
    title, _ = told(summary(*GPU, ("API calls", 100.0, 98_000.0, "cudaMallocHost")))
    assert title == "cudaMallocHost takes 98.0 ms, all of the GPU's work 4.00 ms"


@pytest.mark.parametrize(
    ("call", "longest", "title"),
    [
        ("cudaMalloc", 88.2, "Starting the GPU takes 88.2 ms, all of its work 4.00 ms"),
        ("cudaMalloc", 88.1, "cudaMalloc takes 98.0 ms, all of the GPU's work 4.00 ms"),
        ("cudaHostAlloc", 88.2, "cudaHostAlloc takes 98.0 ms, all of the GPU's work 4.00 ms"),  # pins memory
    ],
)
def test_one_call_that_starts_the_gpu_is_told_as_its_start(call: str, longest: float, title: str) -> None:
    titles = (*NVPROF[:5], "Max (us)", "Name")
    rows = [("API calls", 100.0, 98_000.0, 5.0, 19_600.0, longest * 1_000, call)]
    columns = tuple(ResultColumn(each, "us" if "us" in each else "") for each in titles)
    calls = ResultTable("Summary of nvprof", columns, tuple(rows), totals=totals_of(titles, rows))
    builder = TraceBuilder()
    builder.tables += [summary(*GPU), calls]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert finding.title == title
    alone = TraceBuilder()
    alone.tables.append(calls)
    (finding,) = diagnosis_of(Analysis(alone.build())).findings
    starts = "Starting the GPU takes 88.2 ms, all GPU API calls 98.0 ms"
    assert (finding.title == starts) is title.startswith("Starting")


@pytest.mark.parametrize(
    ("longest", "advice"), [(88.1, "Call it less often"), (88.2, "One of its calls takes nearly all of it")]
)
def test_nine_tenths_of_a_calls_time_in_one_call_are_the_start_of_the_gpu(
    longest: float, advice: str
) -> None:
    titles = (*NVPROF[:5], "Max (us)", "Name")
    rows = [("API calls", 100.0, 98_000.0, 5.0, 19_600.0, longest * 1_000, "cudaMalloc")]
    columns = tuple(ResultColumn(title, "us" if "us" in title else "") for title in titles)
    builder = TraceBuilder()
    builder.tables += [
        summary(*GPU),
        ResultTable("Summary of nvprof", columns, tuple(rows), totals=totals_of(titles, rows)),
    ]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert advice in str(finding.remedy.advice[0])
    assert (f"5 calls, {longest} ms of it in one" in str(finding.account)) == (longest >= 88.2)


@pytest.mark.parametrize(
    ("code", "times", "advice"),
    [
        ("x = x.to(device)", 1.0, "It runs once, and the first work on the GPU"),
        ("x = x.to(device)", 2.0, "Make this faster"),
        ("x = load(path)", 1.0, "Make this faster"),
    ],
)
def test_a_line_that_moves_data_to_the_gpu_once_starts_it(code: str, times: float, advice: str) -> None:
    builder = TraceBuilder()
    columns = (*map(ResultColumn, ("Line", "Hits", "Code")), ResultColumn("Time", "s"))
    rows = (("main (/a/b.py:3)", times, code, 6.0),)
    builder.tables += [ResultTable("lines", columns, rows, totals=(Totals(TimeOf.PROGRAM, 0, 3, calls=1),))]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert advice in str(finding.remedy.advice[0])


@pytest.mark.parametrize("name", ["zeCommandListAppendMemoryCopy(M2D)[128]", "CopyDeviceToHost"])
def test_copies_between_host_and_device_are_copies_whoever_names_them(name: str) -> None:
    copies = of("ms", TimeOf.GPU, (name, 6.0, 60.0), ("gemm", 4.0, 40.0))
    builder = TraceBuilder()
    builder.tables += [copies]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert "Copy less" in str(finding.remedy.advice[0])


@pytest.mark.parametrize(
    ("other", "whose"),
    [
        ("[CUDA memcpy Device-to-Host]", "the time of copies"),
        ("[CUDA memset]", "the time of copies"),
        ("gemm", "the GPU's time"),
    ],
)
def test_a_table_of_copies_alone_does_not_tell_the_gpus_time(other: str, whose: str) -> None:
    title, account = told(of("ms", TimeOf.GPU, ("[CUDA memcpy HtoD]", 6.0, 60.0), (other, 4.0, 40.0)))
    assert title == f"60 % of {whose} is in [CUDA memcpy HtoD]"
    assert account.startswith("The GPU copied for" if "copies" in whose else "The GPU worked for")


def test_memory_that_is_only_filled_is_no_copy() -> None:
    assert (
        told(of("ms", TimeOf.GPU, ("[CUDA memset]", 6.0, 100.0)))[0]
        == "100 % of the GPU's time is in [CUDA memset]"
    )


def test_calls_of_the_system_are_no_calls_to_the_gpu() -> None:
    header = ("Time (%)", "Total Time (ns)", "Num Calls", "Name")
    assert not totals_of(header, [(76.2, 5e9, 64.0, "futex")])
    assert [each.of for each in totals_of(header, [(76.2, 5e9, 64.0, "cudaFree")])] == [TimeOf.CALLS]


STATS = ("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage")


@pytest.mark.parametrize(
    ("name", "whole", "title"),
    [
        ("Total", 10e6, "80 % of the time of GPU API calls is in hipModuleLoad"),
        ("Total", 9e6, "80 % of the time of GPU API calls is in hipModuleLoad"),
        ("Total", 8.9e6, "89 % of the GPU's time is in Total"),
        ("hipTotal", 10e6, "100 % of the time of GPU API calls is in hipTotal"),
    ],
)
def test_a_row_that_adds_up_all_others_is_none_of_them(name: str, whole: float, title: str) -> None:
    rows: list[tuple[Cell, ...]] = [
        ("hipModuleLoad", 4.0, 8e6, 2e6, 80.0), ("hipFree", 4.0, 2e6, 5e5, 20.0), (name, 8.0, whole, 1e6, whole / 1e5),
    ]  # fmt: skip
    columns = tuple(ResultColumn(each, "ns" if each.endswith("Ns") else "") for each in STATS)
    assert told(ResultTable("Summary", columns, tuple(rows), totals=totals_of(STATS, rows)))[0] == title


@pytest.mark.parametrize(
    ("name", "advice"),
    [("hipModuleLoad", "It loads the code of kernels"), ("hipMalloc", "Call it less often")],
)
def test_loading_code_is_no_call_to_be_made_less_often(name: str, advice: str) -> None:
    builder = TraceBuilder()
    columns = tuple(ResultColumn(each, "ns" if each.endswith("Ns") else "") for each in STATS)
    rows = ((name, 4.0, 8e6, 2e6, 80.0), ("hipFree", 4.0, 2e6, 5e5, 20.0))
    builder.tables += [ResultTable("Summary", columns, rows, totals=totals_of(STATS, rows))]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert str(finding.remedy.advice[0]).startswith(advice)


@pytest.mark.parametrize("count", ["Count", "Operations"])
def test_copies_are_the_gpus_in_every_release_of_nsys(count: str) -> None:
    header = ("Time(%)", "Total Time (ns)", count, "Operation")
    assert [each.of for each in totals_of(header, [(100.0, 8e6, 60.0, "[CUDA memcpy HtoD]")])] == [TimeOf.GPU]


def test_shares_are_of_all_rows_though_only_the_first_were_printed() -> None:
    title, account = told(of("ms", TimeOf.CPU, ("aten::mm", 40.0, 20.0), ("aten::add", 20.0, 10.0)))
    assert title == "20 % of the CPU's time is in aten::mm"
    assert "200 ms in all" in account


@pytest.mark.parametrize(("stated", "share"), [(2.0, "2.0 % in aten::mm"), (1.9, "100 % in aten::mm")])
def test_small_shares_are_too_rounded_to_tell_the_whole(stated: float, share: str) -> None:
    assert share in told(of("ms", TimeOf.CPU, ("aten::mm", 40.0, stated)))[1]


def test_ranges_around_everything_are_no_rows() -> None:
    title, _ = told(of("us", TimeOf.GPU, ("training step", 55_000.0, 22_642.0), ("gemm", 40.0, 50.0)))
    assert title == "50 % of the GPU's time is in gemm"


def test_rows_of_one_name_are_added_up_and_runs_with_the_same_columns_are_not() -> None:
    threads = of("", TimeOf.CPU, ("main", None, 40.0), ("solve", None, 30.0), ("solve", None, 30.0))
    title, account = told(threads, of("", TimeOf.CPU, ("other", None, 90.0)))
    assert title == "60 % of the CPU's time is in solve"
    assert account.startswith("Of its time: ")


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (
            (3.07,),
            "all: 100 % in gemm (3.07 ms). There are 2 such tables; these figures are from the longest.",
        ),
        ((3.12,), "There are 2 such tables"),
        ((3.0, 1.0), "There are 3 such tables"),
        ((3.05,), ""),
        ((3.0, 3.0), ""),
    ],
)
def test_tables_of_other_runs_are_counted_where_they_add_up_to_other_times(
    others: tuple[float, ...], said: str
) -> None:
    runs = [of("ms", TimeOf.GPU, ("gemm", ms, 100.0)) for ms in (3.0, *others)]
    account = told(*runs)[1]
    assert ("such tables" in account) is bool(said)
    assert said in account


def test_a_function_is_told_without_the_folders_of_its_file() -> None:
    title, _ = told(of("s", TimeOf.PROGRAM, ("step (/home/me/project/train.py:12)", 6.0, 75.0)))
    assert title == "75 % of the program's time is in step (train.py:12)"


def test_tables_without_totals_have_no_verdict() -> None:
    plain = ResultTable("Summary of nvprof", (ResultColumn("Name"),), (("gemm",),))
    assert told(plain) == ("Results without a recording: Summary of nvprof", "")


def profile(*rows: tuple[str, float, float], whole: float = 10.0) -> ResultTable:
    """Functions of Python's profiler: name, own seconds, seconds with what they call."""
    columns = (
        ResultColumn("Function"),
        ResultColumn("Own time", "s"),
        ResultColumn("With what it calls", "s"),
    )
    return ResultTable("profile", columns, rows, totals=(Totals(TimeOf.PROGRAM, 0, 1, whole=whole),))


def test_shares_are_of_the_stated_whole_though_the_longest_rows_were_not_printed() -> None:
    title, account = told(profile(("step (a.py:1)", 0.6, 9.0)))
    assert title == "6.0 % of the program's time is in step (a.py:1)"
    assert "The program ran for 10.0 s in all" in account


@pytest.mark.parametrize(
    ("own", "others", "title"),
    [
        (0.4, 4.5, "The rows that were printed hold 49 % of the program's time"),
        (0.4, 4.7, "4.0 % of the program's time is in step (a.py:1)"),
        (0.6, 0.0, "6.0 % of the program's time is in step (a.py:1)"),
    ],
)
def test_few_printed_rows_without_a_large_one_are_said_to_leave_out_the_most(
    own: float, others: float, title: str
) -> None:
    small = [(f"f{number}", others / 20, 0.0) for number in range(20)] if others else []
    assert told(profile(("step (a.py:1)", own, 9.0), *small))[0] == title


@pytest.mark.parametrize(
    ("own", "inside", "title"),
    [
        (1.9, 5.0, "50 % of the program's time is in __getitem__ (d.py:3), with what it calls"),
        (1.9, 4.9, "80 % of the program's time is in fit (t.py:9), with what it calls"),
        (2.0, 5.0, "20 % of the program's time is in step (a.py:1)"),
    ],
)
def test_where_no_function_takes_much_itself_the_innermost_around_most_of_the_time_is_told(
    own: float, inside: float, title: str
) -> None:
    around = ("fit (t.py:9)", 0.1, 8.0), ("__getitem__ (d.py:3)", 1.0, inside)
    found, account = told(profile(("main (t.py:1)", 0.0, 9.5), *around, ("step (a.py:1)", own, own)))
    assert found == title
    assert ("With what " in account) is ("with what it calls" in title)
    assert ("each inside the next: " in account) is (inside == 5.0 and own < 2.0)
    assert "main" not in account


def test_what_a_loader_calls_counts_as_waiting_for_data() -> None:
    builder = TraceBuilder()
    rows = (
        ("_next_data (dataloader.py:9)", 0.1, 6.0),
        ("decode (d.py:3)", 1.0, 5.5),
        ("step (a.py:1)", 1.5, 1.5),
    )
    builder.tables += [profile(*rows)]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert finding.culprit.text == "decode (d.py:3)"
    assert finding.advice[0].startswith("The program waits for data")


@pytest.mark.parametrize(
    ("importing", "title"),
    [
        (5.0, "50 % of the program's time is in importing modules"),
        (4.9, "60 % of the program's time is in work (a.py:1)"),
    ],
)
def test_a_program_that_was_profiled_while_it_imports_says_so(importing: float, title: str) -> None:
    imports = ("_find_and_load (<frozen importlib._bootstrap>:1165)", 0.0, importing)
    assert told(profile(imports, ("work (a.py:1)", 6.0, 6.0)))[0] == title


def test_a_program_that_waits_for_its_loader_is_told_to_load_with_more_workers() -> None:
    builder = TraceBuilder()
    builder.tables += [profile(("train_dataloader_next", 6.0, 6.0), ("backward", 2.0, 2.0))]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert "let more workers load it" in str(finding.remedy.advice[0])


def test_a_line_that_was_measured_is_the_one_to_open() -> None:
    builder = TraceBuilder()
    columns = (ResultColumn("Line"), ResultColumn("Time", "s"))
    rows = (("import torch (/a/b.py:3)", 6.0),)
    builder.tables += [ResultTable("lines", columns, rows, totals=(Totals(TimeOf.PROGRAM, 0, 1),))]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert finding.culprit.at is not None
    assert finding.culprit.at.told == "/a/b.py:3"


def test_of_one_run_in_two_orders_the_one_with_more_of_the_time_tells() -> None:
    title, _ = told(profile(("import", 0.6, 0.6)), profile(("step", 7.0, 9.0)))
    assert title == "70 % of the program's time is in step"


def test_calls_alone_are_told_by_the_longest_one_though_it_waits() -> None:
    title, account = told(of("ms", TimeOf.CALLS, ("hipMemcpy", 6.0, 60.0), ("hipFree", 4.0, 40.0)))
    assert title == "60 % of the time of GPU API calls is in hipMemcpy"
    assert "40 % in hipFree" in account


@pytest.mark.parametrize(
    ("longest", "title"),
    [(1.9, "The CPU works for 10.0 s, the GPU for 4.00 ms"), (2.0, "20 % of the CPU's time is in aten::mm")],
)
def test_many_small_operators_are_told_beside_the_gpu(longest: float, title: str) -> None:
    rest = [(f"aten::op{number}", (10.0 - longest) / 9, (10.0 - longest) / 9 * 10) for number in range(9)]
    cpu = of("s", TimeOf.CPU, ("aten::mm", longest, longest * 10), *rest)
    assert told(cpu, summary(*GPU))[0] == title


@pytest.mark.parametrize(
    ("gpu", "printed", "is_of_gpu"), [(0.9, 30.0, True), (0.4, 30.0, False), (0.9, 60.0, False)]
)
def test_the_wait_for_a_gpu_that_works_may_be_in_rows_that_were_not_printed(
    gpu: float, printed: float, is_of_gpu: bool
) -> None:
    cpu = of("s", TimeOf.CPU, ("aten::mm", printed / 100, printed))
    title, account = told(cpu, of("s", TimeOf.GPU, ("gemm", gpu, 100.0)))
    assert title == (
        "100 % of the GPU's time is in gemm"
        if is_of_gpu
        else f"{printed:.0f} % of the CPU's time is in aten::mm"
    )
    assert ("it may wait for the GPU" in account) is is_of_gpu


def test_layers_of_tensorrt_say_which_one_takes_the_gpus_time(fixtures: Path) -> None:
    trace = open_trace([fixtures / "results" / "trtexec_profile.json"])
    analysis = Analysis(trace)
    title = verdict(analysis, diagnosis_of(analysis))
    assert title == "70 % of the GPU's time is in block.0 input reformatter 0"


@pytest.mark.parametrize(
    ("most", "told"),
    [
        (24, "demo::grid::cells::build"),
        (23, "…::grid::cells::build"),
        (20, "…::cells::build"),
        (8, "…::build"),
        (7, "demo::…"),
    ],
)
def test_a_qualified_name_is_shortened_from_the_front(most: int, told: str) -> None:
    assert shortened("demo::grid::cells::build", most) == told


def test_a_name_with_arguments_is_shortened_from_the_end() -> None:
    assert shortened("at::fill<int>(at::Tensor)", 12) == "at::fill<in…"


def test_kernels_made_of_one_template_are_told_together_and_apart() -> None:
    kernels = (
        ("GPU activities", 40.0, 4000.0, "void product<8, float>(float*, int)"),
        ("GPU activities", 35.0, 3500.0, "void product<16, float>(float*, int)"),
        ("GPU activities", 25.0, 2500.0, "void add<float>(float*, int)"),
    )
    title, account = told(summary(*kernels))
    assert title == "75 % of the GPU's time is in product, as 2 template instances"
    assert "40 % in product <8>" in account
    assert "35 % in product <16>" in account
    title, _ = told(summary(*kernels[1:]))
    assert title == "35 % of the GPU's time is in product"
