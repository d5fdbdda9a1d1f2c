"""The binary report: equal to the exported pages, robust against damage, silent about the recorded environment."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import Malformed, Trace, TraceError
from parsers.ncu.results import plain_text
from parsers.protobuf.wire import Damaged, fields, float32, float64, text
from tests.examples import any_text, examples

SCALED_DIGITS = {"byte": 1e9, "byte/s": 1e12, "byte/cycle": 1e3, "sector/s": 1e9, "hz": 1e9, "ns": 1e6}


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block_of(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def prefixed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def metric(name_id: int, value: bytes) -> bytes:
    return block_of(13, number(1, name_id) + block_of(2, value))


def result(*parts: bytes, name: bytes = b"void k(int)") -> bytes:
    dim = number(1, 4) + number(2, 2) + number(3, 1)
    return block_of(6, b"k") + block_of(7, name) + block_of(10, dim) + block_of(11, dim) + b"".join(parts)


def report(
    *results: bytes, names: tuple[str, ...] = (), names_last: bool = False, extra: bytes = b""
) -> bytes:
    table = block_of(4, b"".join(block_of(1, name.encode()) for name in names))
    out = b"NVR\0" + prefixed(number(1, 7))
    if not names_last:
        out += prefixed(table)
    for each in results:
        payload = prefixed(each)
        out += prefixed(number(2, 1) + number(5, len(payload)) + extra) + payload
    return out + (prefixed(table) if names_last else b"")


def opened(tmp_path: Path, data: bytes) -> Trace:
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(data)
    return open_trace([path])


@pytest.fixture(scope="session")
def kept(fixtures: Path) -> Trace:
    return open_trace([fixtures / "ncu" / "kernels.ncu-rep.gz"])


def assert_same_metrics(report_trace: Trace, page: Trace, launches: list[int]) -> int:
    compared = 0
    for kernel, number_in_page in zip(report_trace.kernels, launches, strict=True):
        exported = page.kernels[number_in_page]
        assert (kernel.name, kernel.grid, kernel.block) == (exported.name, exported.grid, exported.block)
        assert (kernel.device, kernel.context, kernel.stream) == (
            exported.device,
            exported.context,
            exported.stream,
        )
        assert kernel.compute_capability == exported.compute_capability
        for name, value in exported.metrics.items():
            compared += 1
            if isinstance(value, str):
                assert kernel.metrics[name] == value
                continue
            unit = "byte/s" if name.endswith("bytes.sum.per_second") else exported.units.get(name, "")
            digits = SCALED_DIGITS.get(unit, 1.0) * 1e-6
            assert kernel.number(name) == pytest.approx(value, rel=1e-6, abs=max(digits, 0.0051)), name
    return compared


def test_every_metric_equals_the_exported_page(kept: Trace, fixtures: Path) -> None:
    page = open_trace([fixtures / "ncu" / "kernels.raw.csv.gz"])
    assert assert_same_metrics(kept, page, [0, 1, 8, 14, 16, 30, 32]) > 15_000


@pytest.mark.thorough
def test_all_launches_of_the_full_report_equal_the_exported_page(shared_data: Path) -> None:
    report_trace = open_trace([shared_data / "ncu" / "kernels.ncu-rep.gz"])
    page = open_trace([shared_data / "ncu" / "kernels.raw.csv"])
    assert assert_same_metrics(report_trace, page, list(range(35))) > 77_000
    assert report_trace.quality.events_read == report_trace.quality.events_kept == 35


def test_conclusions_equal_those_of_the_details_page(kept: Trace, fixtures: Path) -> None:
    page = open_trace([fixtures / "ncu" / "kernels.details.csv.gz"])
    for kernel, launch in zip(kept.kernels, [0, 1, 8, 14, 16, 30, 32], strict=True):
        stored = sorted(kernel.rule_results, key=lambda each: (each.rule, each.text))
        exported = sorted(page.kernels[launch].rule_results, key=lambda each: (each.rule, each.text))
        assert [(e.rule, e.section, e.kind, e.speedup_is_global) for e in stored] == [
            (e.rule, e.section, e.kind, e.speedup_is_global) for e in exported
        ]
        for one, other in zip(stored, exported, strict=True):
            assert (one.speedup_percent is None) == (other.speedup_percent is None)
            assert (one.speedup_percent or 0.0) == pytest.approx(other.speedup_percent or 0.0, rel=1e-3)
            assert one.text == other.text


def test_device_version_and_instances_are_there_and_the_environment_is_not(kept: Trace) -> None:
    assert kept.inputs[0].producer.startswith("Nsight Compute 2025.3")
    kernel = kept.kernels[3]
    assert kernel.device_name == "NVIDIA H200"
    assert dict(kernel.instances["sass__inst_executed_per_opcode"])["DFMA"] == 16_896_000
    assert not any("Triage" in name or "pcsamp" in name for name in kernel.instances)


def test_names_may_come_after_the_results_that_use_them(tmp_path: Path) -> None:
    measured = result(metric(1, double(3, 2.5)), metric(0, number(5, 7)), metric(2, block_of(1, b"all")))
    names = ("a.sum", "b.avg", "launch__tpc_enabled")
    for names_last in (False, True):
        kernel = opened(tmp_path, report(measured, names=names, names_last=names_last)).kernels[0]
        assert kernel.metrics == {"b.avg": 2.5, "a.sum": 7, "launch__tpc_enabled": "all"}
        assert (kernel.name, kernel.grid) == ("void k(int)", (4, 2, 1))


@pytest.mark.parametrize(
    ("blocks", "grid"), [(1, (1, 1, 1)), (8, (4, 2, 1)), (2, (4, 2, 1))], ids=["threads", "blocks", "neither"]
)
def test_a_grid_that_counts_threads_is_one_of_blocks(
    tmp_path: Path, blocks: int, grid: tuple[int, int, int]
) -> None:
    measured = result(metric(0, number(5, blocks)))
    (kernel,) = opened(tmp_path, report(measured, names=("launch__grid_size",))).kernels
    assert (kernel.grid, kernel.block) == (grid, (4, 2, 1))


def test_an_empty_demangled_name_falls_back_to_the_function_name(tmp_path: Path) -> None:
    assert opened(tmp_path, report(result(name=b""))).kernels[0].name == "k"


def test_ranges_and_graphs_are_measured_as_a_whole(tmp_path: Path) -> None:
    group = block_of(4, number(1, 0) + block_of(2, number(5, 7)))
    payload = prefixed(group) + prefixed(group)
    data = b"NVR\0" + prefixed(number(1, 7)) + prefixed(block_of(4, block_of(1, b"a")))
    data += prefixed(number(7, 1) + number(9, 1) + number(5, len(payload))) + payload
    assert [(each.name, each.metrics) for each in opened(tmp_path, data).kernels] == [
        ("range", {"a": 7}),
        ("CUDA graph", {"a": 7}),
    ]


def test_unknown_fields_and_missing_values(tmp_path: Path) -> None:
    later_version = result(metric(0, double(3, float("nan"))), block_of(99, b"new"), number(98, 1))
    kernel = opened(tmp_path, report(later_version, names=("a",), extra=block_of(77, b"x"))).kernels[0]
    assert kernel.metrics == {}


def test_zstd_and_gzip_are_unpacked(tmp_path: Path) -> None:
    data = report(result(metric(0, number(5, 7))), names=("a",))
    for packed in (zstandard.compress(data), gzip.compress(data)):
        assert opened(tmp_path, packed).kernels[0].metrics == {"a": 7}


def test_of_a_cut_report_the_launches_before_the_cut_are_kept(tmp_path: Path) -> None:
    data = report(result(metric(0, number(5, 7))), result(metric(0, number(5, 8))), names=("a",))
    trace = opened(tmp_path, data[:-5])
    assert [kernel.metrics["a"] for kernel in trace.kernels] == [7]
    assert any(note.kind == "damaged-report" for note in trace.quality.notes)


def test_a_report_without_launches_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no profiled kernel"):
        opened(tmp_path, report(names=("a",)))


def test_a_report_cut_before_its_first_launch_says_so(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="damaged before its first launch"):
        opened(tmp_path, report(result())[:20])


def test_impossible_lengths_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Malformed):
        opened(tmp_path, b"NVR\0" + b"\xff\xff\xff\xff" + b"x" * 100)
    with pytest.raises(Malformed):
        opened(tmp_path, b"NVR\0" + prefixed(number(1, 7)) + prefixed(number(2, 1) + number(5, 2**60)))


def test_a_report_that_unpacks_to_far_more_than_recordings_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers.files.unpacking_limit.ALWAYS_ALLOWED", 10_000)
    padded = result(block_of(99, b"x" * 1_000_000))
    with pytest.raises(TraceError, match="unpacks to more than"):
        opened(tmp_path, gzip.compress(report(padded)))
    assert opened(tmp_path, report(padded)).kernels


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_never_crashes(tmp_path: Path, data: st.DataObject) -> None:
    intact = report(
        result(metric(0, double(3, 2.5)), metric(1, number(5, 7))),
        result(metric(0, number(5, 8))),
        names=("a", "b"),
    )
    garbled = bytearray(intact)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(4, len(garbled) - 1))
        garbled[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    try:
        trace = opened(tmp_path, bytes(garbled))
    except TraceError:
        return
    for kernel in trace.kernels:
        assert all(isinstance(value, (int, float, str)) for value in kernel.metrics.values())
    assert trace.quality.events_read == trace.quality.events_kept + trace.quality.quarantined


def test_damage_in_a_launch_and_later_at_the_end_of_the_file_is_counted_once(tmp_path: Path) -> None:
    sound = result(metric(0, number(5, 7)))
    data = report(sound, b"\x07" * 40, sound, names=("a",))
    trace = opened(tmp_path, data[:-5])
    assert len(trace.kernels) == 1
    (note,) = (each for each in trace.quality.notes if each.kind == "damaged-report")
    assert (note.count, note.example) == (1, "after launch 1")
    assert trace.quality.events_read == trace.quality.events_kept + trace.quality.quarantined == 2


@given(st.binary(max_size=200))
def test_the_field_reader_ends_or_refuses(data: bytes) -> None:
    try:
        found = list(fields(data))
    except Damaged:
        return
    assert sum(2 for _ in found) <= max(len(data), 0)


@given(st.integers(0, 2**64 - 1), st.floats(allow_nan=False), any_text(30))
def test_the_field_reader_reads_what_was_written(whole: int, real: float, words: str) -> None:
    message = number(5, whole) + double(3, real) + block_of(1, words.encode())
    values = {field: value for field, _, value in fields(message)}
    assert values[5] == whole
    assert float64(values[3]) == real
    assert text(values[1]) == words
    assert float32(memoryview(struct.pack("<f", 1.5))) == 1.5


def test_stored_text_loses_its_markup() -> None:
    assert plain_text("See @section:SourceCounters:Source Counters@ now.") == "See Source Counters now."
    assert (
        plain_text("The @url:Guide:https://x.org/a#b@ says 5 @ 3.")
        == "The Guide (https://x.org/a#b) says 5 @ 3."
    )
