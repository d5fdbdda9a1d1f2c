"""Every page of Nsight Compute's CSV, clean, and as people really save it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import KernelProfile, Trace, TraceError, UnknownFormat
from tests.examples import examples

DURATION = "gpu__time_duration.sum"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
NVTX = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
IDENTITY = '"{id}","7","python","host","{name}","1","7","(256, 1, 1)","(528, 1, 1)","0","9.0"'


def raw_page(rows: list[tuple[str, str, str]], unit: str = "us") -> str:
    lines = [f'{HEADER},"{DURATION}","launch__waves_per_multiprocessor"', '"",' * 11 + f'"{unit}",""']
    lines += [f'{IDENTITY.format(id=ident, name=name)},"{value}","1.00"' for ident, name, value in rows]
    return "\n".join(lines) + "\n"


def opened(tmp_path: Path, text: str | bytes, name: str = "page.csv") -> Trace:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_trace([path])


def by_id(trace: Trace) -> dict[str, KernelProfile]:
    return {kernel.id: kernel for kernel in trace.kernels}


@pytest.fixture(scope="session")
def raw(fixtures: Path) -> Trace:
    return open_trace([fixtures / "ncu" / "kernels.raw.csv.gz"])


@pytest.fixture(scope="session")
def details(fixtures: Path) -> Trace:
    return open_trace([fixtures / "ncu" / "kernels.details.csv.gz"])


def test_the_raw_page_of_a_real_recording(raw: Trace) -> None:
    assert [kernel.id for kernel in raw.kernels] == [str(number) for number in range(35)]
    kernel = raw.kernels[8]
    assert (kernel.name, kernel.grid, kernel.block) == ("copy_strided", (131072, 1, 1), (256, 1, 1))
    assert kernel.compute_capability == (9, 0)
    assert kernel.device_name == "NVIDIA H200"
    assert kernel.duration_ns == pytest.approx(1_560_288, rel=1e-3)
    assert kernel.number("dram__bytes.sum.peak_sustained") == pytest.approx(1504)
    assert kernel.units[DURATION] == "ns"
    assert kernel.process_name == "python3.12"
    assert raw.quality.events_read == raw.quality.events_kept == 35
    assert raw.inputs[0].format == "ncu-csv"


def test_the_details_page_says_the_same_as_the_raw_page(raw: Trace, details: Trace) -> None:
    compared = 0
    for exact, labelled in zip(raw.kernels, details.kernels, strict=True):
        assert (exact.id, exact.name, exact.grid) == (labelled.id, labelled.name, labelled.grid)
        for metric in labelled.metrics:
            value, shown = exact.number(metric), labelled.number(metric)
            if value is None or shown is None:
                continue
            compared += 1
            assert shown == pytest.approx(value, rel=0.006, abs=max(0.006, abs(shown) * 0.03)), metric
    assert compared > 35 * 60


def test_the_label_memory_throughput_means_two_metrics(details: Trace) -> None:
    kernel = details.kernels[8]
    assert kernel.number(MEMORY) == pytest.approx(65.6, abs=0.1)
    assert kernel.number("dram__bytes.sum.per_second") == pytest.approx(2.75e12, rel=0.02)


def test_conclusions_of_the_profiler_are_kept(details: Trace) -> None:
    results = {result.rule: result for result in details.kernels[8].rule_results}
    assert results["UncoalescedGlobalAccess"].kind == "optimization"
    assert results["UncoalescedGlobalAccess"].speedup_percent == pytest.approx(87.3)
    assert results["UncoalescedGlobalAccess"].speedup_is_global is True
    assert results["IssueSlotUtilization"].speedup_is_global is False
    assert results["SOLFPRoofline"].kind == "info"


@pytest.mark.parametrize("label", [DURATION, f"Duration ({DURATION})", f"Duration {DURATION}", "Duration"])
def test_details_pages_with_labels_names_or_both(tmp_path: Path, label: str) -> None:
    text = (
        f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value"\n'
        f'{IDENTITY.format(id="0", name="k")},"GPU Speed Of Light Throughput","{label}","us","1.50"\n'
    )
    assert opened(tmp_path, text).kernels[0].metrics == {DURATION: 1500.0}


def test_the_summary_page_counts_invocations(fixtures: Path) -> None:
    trace = open_trace([fixtures / "ncu" / "kernels.summary.csv.gz"])
    kernel = next(each for each in trace.kernels if each.name == "atomic_contention")
    assert kernel.invocations == 2
    assert kernel.duration_ns == pytest.approx(513_650, rel=1e-3)
    assert len({each.id for each in trace.kernels}) == len(trace.kernels)


SUMMARY_HEADER = (
    ["Process ID", "Process Name", "Host Name"],
    ["Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations", "Section Name", "Metric Name",
     "Metric Unit", "Minimum", "Maximum", "Average"],
)  # fmt: skip


@pytest.mark.parametrize("columns", [["Domain", "Range"], [NVTX], ["Range Name"]])
def test_a_summary_of_each_nvtx_range_keeps_the_kernel_of_every_range(
    tmp_path: Path, columns: list[str]
) -> None:
    before, after = SUMMARY_HEADER
    header = [*before, *columns, *after]
    lines = [",".join(f'"{name}"' for name in header)]
    for place, (name, average) in enumerate((("forward", "1.5"), ("backward", "3.5"), ("", "2.5"))):
        ranges = ["train"[: 5 * bool(name)], name][-len(columns) :]
        cells = [
            "7",
            "python",
            "host",
            *ranges,
            "gemm",
            "(128, 1, 1)",
            "(64, 1, 1)",
            "0",
            "9.0",
            str(place + 2),
        ]
        lines += [
            ",".join(f'"{cell}"' for cell in [*cells, "GPU Speed Of Light Throughput", *metric])
            for metric in (("Duration", "us", "1.0", "9.0", average), ("DRAM Throughput", "%", "1", "9", "5"))
        ]
    kernels = opened(tmp_path, "\n".join(lines)).kernels
    assert [kernel.duration_ns for kernel in kernels] == [1500, 3500, 2500]
    assert [kernel.invocations for kernel in kernels] == [2, 3, 4]
    assert len({kernel.id for kernel in kernels}) == 3
    stated = [kernel.metrics.get("nvtx__range") for kernel in kernels]
    assert stated == (
        ["train:forward", "train:backward", None] if len(columns) == 2 else ["forward", "backward", None]
    )


def test_a_live_run_with_tool_lines(fixtures: Path) -> None:
    trace = open_trace([fixtures / "ncu" / "kernels.live_metrics.csv"])
    assert len(trace.kernels) == 11
    assert trace.kernels[0].metrics == {
        "dram__bytes.sum": 250_306_560,
        DURATION: 160_416,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 27.55,
    }
    assert any("unmodified GPU clocks" in note.reason for note in trace.quality.notes)


def test_times_are_read_in_the_unit_the_page_states(tmp_path: Path) -> None:
    for unit, value in (("ns", "89856"), ("us", "89.856"), ("usecond", "89.856"), ("ms", "0.089856")):
        trace = opened(tmp_path, raw_page([("0", "k", value)], unit))
        assert trace.kernels[0].duration_ns == pytest.approx(89_856), unit


def test_other_output_before_between_and_after_is_counted(tmp_path: Path) -> None:
    page = raw_page([("0", "a", "1.5"), ("1", "b", "2.5")]).splitlines()
    text = "\n".join(
        [
            "loss = 0.5, 0.25",
            *page[:3],
            '==PROF== Profiling "b" - 1: 0%....100% - 4 passes',
            'print "quoted, text',
            *page[3:],
            "done",
            "==PROF== Disconnected from process 7",
        ]
    )
    trace = opened(tmp_path, text)
    assert [kernel.name for kernel in trace.kernels] == ["a", "b"]
    other = next(note for note in trace.quality.notes if note.kind == "other-output")
    assert other.count == 3
    assert other.example == "loss = 0.5, 0.25"


def test_only_errors_give_their_text(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="permission to access NVIDIA GPU Performance Counters") as caught:
        opened(
            tmp_path,
            "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
            "NVIDIA GPU Performance Counters\n",
        )
    assert caught.value.hint


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        ("==PROF== Report: /home/me/runs/train.ncu-rep\n", "Open train.ncu-rep, its report."),
        ("==PROF== Report: C:\\runs\\train.ncu-rep\n", "Open train.ncu-rep, its report."),
        ("", "Fix what it names and record again."),
    ],
)
def test_what_it_printed_while_it_saved_a_report_names_that(saved: str, told: str, tmp_path: Path) -> None:
    passes = '==PROF== Profiling "add" - 0: 0%....100% - 8 passes\n==WARNING== It takes long.\n'
    with pytest.raises(TraceError) as caught:
        opened(tmp_path, passes + saved)
    assert caught.value.hint == told


def test_an_error_beside_kernels_is_a_note(tmp_path: Path) -> None:
    trace = opened(tmp_path, '==ERROR== Failed to profile "x"\n' + raw_page([("0", "k", "1.5")]))
    assert [note.kind for note in trace.quality.notes] == ["profiler-error"]


def test_rows_shorter_than_the_header(tmp_path: Path) -> None:
    page = raw_page([("0", "k", "1.5"), ("1", "k", "2.5")])
    trace = opened(tmp_path, page[: page.rindex(',"1.00"')])
    assert trace.kernels[1].duration_ns == pytest.approx(2500)
    assert "launch__waves_per_multiprocessor" not in trace.kernels[1].metrics
    assert [note.kind for note in trace.quality.notes] == ["short-row"]


def test_a_row_that_is_cut_inside_a_field(tmp_path: Path) -> None:
    page = raw_page([("0", "k", "1.5"), ("1", "k", "2.5")])
    trace = opened(tmp_path, page[:-30])
    assert len(trace.kernels) >= 1
    assert trace.kernels[0].duration_ns == pytest.approx(1500)


def test_two_recordings_in_one_file_keep_their_launches(tmp_path: Path) -> None:
    trace = opened(tmp_path, raw_page([("0", "k", "1.5")]) + raw_page([("0", "k", "3.5")], "ms"))
    assert {kernel.id: kernel.duration_ns for kernel in trace.kernels} == {
        "0": pytest.approx(1500),
        "0#2": pytest.approx(3.5e6),
    }


def test_raw_and_details_of_one_recording_in_one_file_are_one_launch(tmp_path: Path) -> None:
    details = (
        f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value",'
        '"Rule Name","Rule Type","Rule Description"\n'
        f'{IDENTITY.format(id="0", name="k")},"GPU Speed Of Light Throughput","Duration","us","1.50",\n'
        f'{IDENTITY.format(id="0", name="k")},"SpeedOfLight","","","","SOLBottleneck","WRN","Low, ""very"" low"\n'
    )
    trace = opened(tmp_path, raw_page([("0", "k", "1.504")]) + details)
    assert len(trace.kernels) == 1
    assert trace.kernels[0].duration_ns == pytest.approx(1504)
    assert trace.kernels[0].rule_results[0].text == 'Low, "very" low'
    assert trace.kernels[0].rule_results[0].kind == "warning"


def test_columns_are_found_by_name_also_with_nvtx_columns_and_without_grid_columns(tmp_path: Path) -> None:
    text = (
        f'"ID","Process ID","Process Name","Host Name","{NVTX}","Kernel Name","Kernel Time","Context","Stream",'
        '"gpu__time_duration.sum","launch__grid_dim_x","launch__grid_dim_y",'
        '"launch__grid_dim_z","launch__block_dim_x","launch__block_dim_y","launch__block_dim_z"\n'
        + '"",'
        * 9
        + '"nsecond","","","","","",""\n'
        '"3","7","a.out","h","""<default domain>:range:none"" ","void k<int>(T1 *, T2)",'
        '"2022-Nov-02 12:00:00","1","7","89,856","10","2","1","32","4","1"\n'
    )
    kernel = opened(tmp_path, text).kernels[0]
    assert (kernel.id, kernel.name) == ("3", "void k<int>(T1 *, T2)")
    assert (kernel.grid, kernel.block, kernel.duration_ns) == ((10, 2, 1), (32, 4, 1), 89856)
    assert not any("Push/Pop" in metric for metric in kernel.metrics)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_files_that_a_shell_has_reencoded(tmp_path: Path, encoding: str) -> None:
    text = raw_page([("0", "kernel µ", "1.5")]).replace("\n", "\r\n")
    assert opened(tmp_path, text.encode(encoding)).kernels[0].name == "kernel µ"


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_files_that_a_spreadsheet_has_saved_again(tmp_path: Path, delimiter: str) -> None:
    rows = [
        [
            "ID",
            "Process ID",
            "Kernel Name",
            "Block Size",
            "Grid Size",
            DURATION,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        ],
        ["", "", "", "", "", "us", "%"],
        ["0", "7", "k", "(256, 1, 1)", "(528, 1, 1)", "1.234,5", "27,55"],
    ]
    kernel = opened(tmp_path, "\n".join(delimiter.join(row) for row in rows)).kernels[0]
    assert kernel.duration_ns == pytest.approx(1_234_500)
    assert kernel.number("sm__throughput.avg.pct_of_peak_sustained_elapsed") == 27.55


def test_missing_values_are_absent_not_zero(tmp_path: Path) -> None:
    for word in ("n/a", "nan", "(!) nan", "no data", ""):
        trace = opened(tmp_path, raw_page([("0", "k", word)]))
        assert DURATION not in trace.kernels[0].metrics, word
        assert trace.kernels[0].duration_ns is None


def test_names_with_line_breaks_and_markup_are_only_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\nsecond line"
    trace = opened(tmp_path, raw_page([("0", name, "1.5"), ("1", "plain", "2.5")]))
    assert [kernel.name for kernel in trace.kernels] == [name, "plain"]


@pytest.mark.parametrize(
    "text",
    [
        '"Kernel Name","k"\n"Address","Source"\n"1","MOV R1, R2"\n',
        "[2531] python3.12@127.0.0.1\n  k (1, 1, 1)x(32, 1, 1)\n    Section: GPU Speed Of Light Throughput\n    x 5\n",
    ],
)
def test_other_pages_are_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        opened(tmp_path, text)
    assert "--page raw" in caught.value.hint


def test_a_csv_of_something_else_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "city,country\nParis,France\n")


def test_of_a_cut_gzip_the_part_before_the_cut_is_kept(tmp_path: Path, fixtures: Path, raw: Trace) -> None:
    packed = (fixtures / "ncu" / "kernels.raw.csv.gz").read_bytes()
    trace = opened(tmp_path, packed[: len(packed) // 2], "cut.csv.gz")
    assert 1 < len(trace.kernels) < 35
    assert trace.kernels[0].metrics == raw.kernels[0].metrics
    assert any(note.kind == "cut-file" for note in trace.quality.notes)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_text_never_crashes(tmp_path: Path, data: st.DataObject) -> None:
    page = bytearray(raw_page([("0", "a", "1.5"), ("1", "b", "2.5"), ("2", "c", "3.5")]).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(page) - 1))
        page[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    try:
        trace = opened(tmp_path, bytes(page) or b"x")
    except TraceError:
        return
    assert all(isinstance(kernel.name, str) for kernel in trace.kernels)


def test_a_file_that_unpacks_to_far_more_than_recordings_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.files.unpacking_limit.ALWAYS_ALLOWED", 10_000)
    page = raw_page([("0", "k", "1.5")])
    row = page.splitlines()[-1] + "\n"
    packed = gzip.compress((page + row * 20_000).encode())
    with pytest.raises(TraceError, match="unpacks to more than"):
        opened(tmp_path, packed)
    assert len(opened(tmp_path, gzip.compress((page + row * 20).encode())).kernels) == 21


def test_files_of_other_people_open(shared_data: Path) -> None:
    folder = shared_data / "public" / "ncu"
    failed = folder / "CodeGandee_llm-perf-opt__ncu__raw.csv"
    with pytest.raises(TraceError, match="did not match any section"):
        open_trace([failed])
    for path in sorted(set(folder.glob("*.csv")) - {failed}):
        assert open_trace([path]).kernels[0].name


def test_gzip_and_plain_say_the_same(tmp_path: Path, fixtures: Path, raw: Trace) -> None:
    plain = opened(tmp_path, gzip.decompress((fixtures / "ncu" / "kernels.raw.csv.gz").read_bytes()))
    assert by_id(plain)["34"].metrics == by_id(raw)["34"].metrics


@pytest.mark.parametrize(
    "cell",
    [
        " " * 200_000,
        "1" + " " * 200_000 + "(",
        "(" * 100_000,
        "a" * 100_000 + "__ " + "b" * 100_000,
        "1," * 100_000,
    ],
)
def test_very_long_cells_take_no_long_time(tmp_path: Path, cell: str) -> None:
    text = (
        f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value"\n'
        f'{IDENTITY.format(id="0", name="k")},"Occupancy","{cell}","%","1.50"\n'
        f'{IDENTITY.format(id="0", name="k")},"Occupancy","Achieved Occupancy","%","{cell}"\n'
        f'{IDENTITY.format(id="1", name=cell)},"Occupancy","Achieved Occupancy","%","1.50"\n'
    )
    trace = opened(tmp_path, "\n" * 60_000 + text)
    assert trace.kernels[1].number("sm__warps_active.avg.pct_of_peak_sustained_active") == 1.5


OLD_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",'
    '"Section Name","Metric Name","Metric Unit","Metric Value"'
)


@pytest.mark.parametrize("separator", ['","', '", "'])
def test_details_of_2020_with_its_labels_and_units(tmp_path: Path, separator: str) -> None:
    identity = '"0","21524","cfd","127.0.0.1","step","2020-Apr-07 17:01:05","1","7"'
    rows = [
        ("GPU Speed Of Light", "SOL SM", "%", "35.10"),
        ("GPU Speed Of Light", "SOL Memory", "%", "62.40"),
        ("GPU Speed Of Light", "SOL FB", "%", "39.60"),
        ("GPU Speed Of Light", "Memory Frequency", "cycle/nsecond", "0.77"),
        ("GPU Speed Of Light", "Duration", "usecond", "11.20"),
        ("Launch Statistics", "Grid Size", "", "1,212"),
        ("Launch Statistics", "Block Size", "", "128"),
        ("Occupancy", "Achieved Occupancy", "%", "71.00"),
    ]
    lines = [
        OLD_HEADER,
        *(f'{identity},"{section}","{label}","{unit}","{value}"' for section, label, unit, value in rows),
    ]
    text = "\n".join(lines).replace('","', separator)
    kernel = opened(tmp_path, f"==PROF== Connected to process 21524\n{text}\n").kernels[0]
    assert kernel.number("sm__throughput.avg.pct_of_peak_sustained_elapsed") == 35.1
    assert kernel.number(MEMORY) == 62.4
    assert kernel.number("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed") == 39.6
    assert kernel.number("dram__cycles_elapsed.avg.per_second") == pytest.approx(0.77e9)
    assert kernel.duration_ns == pytest.approx(11_200)
    assert (kernel.grid, kernel.block) == ((1212, 1, 1), (128, 1, 1))


def test_a_table_with_an_index_column_that_another_program_added(tmp_path: Path) -> None:
    text = (
        ",ID,Process ID,Kernel Name,Metric Name,Metric Unit,Metric Value\n"
        f"0,0,7,k,{DURATION},us,1.5\n"
        f"1,1,7,k,{DURATION},us,2.5\n"
    )
    assert [kernel.duration_ns for kernel in opened(tmp_path, text).kernels] == [1500.0, 2500.0]


@pytest.mark.parametrize("odd", ["1e999", "-1e999", "1e300", "text"])
def test_a_launch_of_no_countable_size_keeps_its_metrics(tmp_path: Path, odd: str) -> None:
    text = (
        f'{HEADER},"{DURATION}","launch__grid_dim_x","launch__device_id"\n'
        f'{IDENTITY.format(id="0", name="k").replace("(528, 1, 1)", "")},"1.5","{odd}","{odd}"\n'
    )
    (kernel,) = opened(tmp_path, text).kernels
    assert kernel.metrics[DURATION] == 1.5
    assert kernel.grid == (0, 0, 0)
