"""Timelines joined with kernel reports, and two launches compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Attribute, Device, EventKind, KernelProfile, Lane, LaneKind, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.kernels import distinct_kernels
from parsers.model.names.kernels import base_name, kernel_name, similarity
from rules.catalog.memory_bound_kernels import measured_sentence
from rules.comparison.compare import compare
from rules.comparison.kernels import compare_kernels, compare_reports
from rules.diagnosis import diagnose
from rules.findings.base import Category
from rules.kernels.join import Certainty, kernel_join
from tests.rules.kernel_profiles import DRAM, ISSUED, MEMORY, kernel, stall, trace_of
from viewer.reports.comparison_blocks import as_text, comparison_report
from viewer.reports.comparison_report import as_json
from viewer.reports.rendering.pages import page_of

TIMELINE_GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&,"
    " at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int,"
    " at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul>)"
)
REPORT_GELU = (
    "void at::vectorized_elementwise_kernel<4, at::GeluCUDAKernelImpl(at::TensorIteratorBase &, at::GeluType)"
    "::[lambda() (instance 2)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, 2>>(int, T2, T3)"
)
REPORT_TANH = REPORT_GELU.replace("GeluCUDAKernelImpl", "tanh_kernel_cuda").replace(", at::GeluType", "")


def timeline(kernels: tuple[KernelProfile, ...], launches: list[tuple[str, str, int]]) -> Trace:
    """A timeline of (name, grid, ns) launches one after the other, with these profiles beside it."""
    builder = TraceBuilder()
    builder.devices.append(Device(0, "NVIDIA H200"))
    lane = builder.lane(Lane(LaneKind.GPU_STREAM, "stream 7", device=0, stream=7))
    at = 0
    for name, grid, time in launches:
        events = builder.add(
            np.array([at]), np.array([at + time]), builder.string(name), lane, int(EventKind.KERNEL)
        )
        builder.attribute(Attribute.GRID_SHAPE, events, builder.string(grid))
        builder.attribute(Attribute.BLOCK_SHAPE, events, builder.string("256,1,1"))
        at += time
    builder.kernels = list(kernels)
    return builder.build()


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (TIMELINE_GELU, "vectorized_elementwise_kernel"),
        (REPORT_GELU, "vectorized_elementwise_kernel"),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, 11, false>(float*)",
            "softmax_warp_forward",
        ),
        ("void <unnamed>::softmax_warp_forward<float, 11, 0>(T1 *)", "softmax_warp_forward"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm>(T1::Params)", "Kernel2"),
        (
            "ncclDevKernel_AllReduce_Sum_f32(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_Sum_f32",
        ),
        ("copy_blocked[v1,abc](Array<long long, 1>, long long)", "copy_blocked"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("", ""),
    ],
)
def test_base_names(name: str, base: str) -> None:
    assert base_name(name) == base


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        (TIMELINE_GELU, "Gelu · vectorized_elementwise_kernel"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128>(T1::Params)", "cutlass_80_simt_sgemm_256x128"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(T3)",
         "ArgMax · reduce_kernel"),
        ("void ns::plain<float, 4>(float *, int)", "plain"),
        ("void lib::Kernel<lib::conv::kernel::ImplicitGemmConvolution<lib::conv::Mma<8>>>(T1::Params)",
         "ImplicitGemmConvolution"),
        ("void Kernel2(int)", "Kernel2"),
    ],
)  # fmt: skip
def test_kernel_names_say_what_a_generic_kernel_was_made_for(name: str, readable: str) -> None:
    assert kernel_name(name) == readable


def test_spellings_of_two_tools_are_alike_and_other_instances_are_not() -> None:
    assert similarity(TIMELINE_GELU, REPORT_GELU) > 0.85
    assert similarity(TIMELINE_GELU, REPORT_TANH) < similarity(TIMELINE_GELU, REPORT_GELU) - 0.1
    bools = "void ln_kernel<float, float, {}>(float)"
    assert similarity(bools.format("false"), bools.format("0")) > 0.95
    assert similarity(bools.format("false"), bools.format("1")) < 0.7


def test_launches_match_by_name_and_shape() -> None:
    profiles = (
        kernel(name=REPORT_GELU, ident="0"),
        kernel(name=REPORT_TANH, ident="1"),
        kernel(name=REPORT_GELU, grid=(5, 1, 1), ident="2"),
    )
    trace = timeline(
        profiles,
        [
            (TIMELINE_GELU, "2640,1,1", 50),
            (TIMELINE_GELU, "2640,1,1", 40),
            (TIMELINE_GELU, "7,1,1", 30),
            ("other", "1,1,1", 9),
        ],
    )
    join = kernel_join(trace)
    assert kernel_join(trace) is join
    matches = [join.profile_of(event) for event in join.event.tolist()]
    assert [match and (match[0].id, match[1]) for match in matches] == [
        ("0", Certainty.SHAPE),
        ("0", Certainty.SHAPE),
        ("0", Certainty.NAME_ONLY),
        None,
    ]
    assert len(join.events_of([profiles[0]])) == 2


def test_as_many_launches_as_profiles_are_paired_in_order() -> None:
    profiles = tuple(kernel({"gpu__time_duration.sum": 10 + at}, name="k", ident=str(at)) for at in range(3))
    join = kernel_join(timeline(profiles, [("k", "2640,1,1", 50)] * 3))
    assert join.profile.tolist() == [0, 1, 2]
    assert set(join.certainty.tolist()) == {Certainty.LAUNCH}


def test_kernels_that_cannot_be_told_apart_are_marked() -> None:
    profiles = (
        kernel(name="void k<float, 4>(T1 *)", ident="0"),
        kernel(name="void k<float, 4>(T1 *, T2)", ident="1"),
    )
    join = kernel_join(timeline(profiles, [("void k<float, 4>(float*)", "2640,1,1", 50)]))
    match = join.profile_of(0)
    assert match is not None
    assert match[1] is Certainty.AMBIGUOUS
    assert "several" in match[1].text


def test_beside_a_timeline_findings_are_weighed_by_the_timeline() -> None:
    scattered = kernel(
        {"memory_l2_theoretical_sectors_global": 1000, "memory_l2_theoretical_sectors_global_ideal": 500,
         "lts__cycles_active.sum": 100, "lts__cycles_elapsed.sum": 100},
        name="k",
    )  # fmt: skip
    absent = kernel(name="absent", ident="1")
    trace = timeline((scattered, absent), [("k", "2640,1,1", 400_000), ("other", "1,1,1", 600_000)])
    found = [each for each in diagnose(trace).findings if each.kernel is not None]
    assert {each.kernel for each in found} == {"0"}
    finding = next(each for each in found if each.category is Category.UNCOALESCED_ACCESS)
    assert (finding.ceiling_ns, finding.window_ns) == (200_000, 1_000_000)
    assert finding.intervals == ((0, 400_000),)
    assert finding.evidence[0].name == "k"
    assert finding.device == 0


def test_a_timeline_and_a_report_open_together(fixtures: Path, shared_data: Path) -> None:
    timeline_path = shared_data / "torch" / "fp32_gemm_fixed.pt.trace.json.gz"
    trace = open_trace([timeline_path, fixtures / "ncu" / "library.raw.csv.gz"])
    assert len(trace.kernels) == 14
    join = kernel_join(trace)
    assert join.matched > 0
    sentence = measured_sentence(trace, join.event)
    assert sentence.startswith("Nsight Compute measured nvjet_sm90_tst_256x128")
    assert "BF16 tensor roof" in sentence


def test_ids_of_several_reports_stay_distinct() -> None:
    reports = [[kernel(ident="0"), kernel(ident="1")], [kernel(ident="0")], [kernel(ident="0")]]
    assert [each.id for each in distinct_kernels(reports)] == ["0", "1", "0@2", "0@3"]


def test_why_it_got_faster() -> None:
    before = kernel(
        {"gpu__time_duration.sum": 4_800_000, MEMORY: 89.0, DRAM: 89.0, "lts__t_sector_hit_rate.pct": 41.0},
        stall("long_scoreboard", 0.62),
    )
    after = kernel(
        {"gpu__time_duration.sum": 1_100_000, MEMORY: 76.0, DRAM: 60.0, "lts__t_sector_hit_rate.pct": 78.0},
        stall("long_scoreboard", 0.28),
    )
    comparison = compare_kernels(before, after)
    assert comparison.speedup == pytest.approx(4.36, abs=0.01)
    assert comparison.why.startswith("4.4 times faster (4.80 ms -> 1.10 ms) because more accesses hit L2")
    assert "long scoreboard (62.0 % -> 28.0 %)" in comparison.why
    rows = {row.label: (row.before_text, row.after_text) for row in comparison.rows}
    assert rows["Memory throughput"] == ("89.0 %", "76.0 %")
    assert rows["Stall: long scoreboard"] == ("62.0 %", "28.0 %")
    assert compare_kernels(after, before).why.startswith("4.4 times slower")
    hardly = replace(before, metrics={**before.metrics, "gpu__time_duration.sum": 1_000})
    assert compare_kernels(before, hardly).why.startswith("4,800 times faster (4.80 ms -> 1.00 us)")
    assert "About as fast" in compare_kernels(before, before).why


def test_different_conditions_are_mentioned() -> None:
    clock = "gpc__cycles_elapsed.avg.per_second"
    slow = kernel({"gpu__time_duration.sum": 200_000, clock: 1.0e9, ISSUED: 0.2})
    fast = kernel({"gpu__time_duration.sum": 100_000, clock: 2.0e9, ISSUED: 0.7})
    assert "clock differed" in compare_kernels(slow, fast).why
    assert "different GPUs" in compare_kernels(slow, replace(fast, device_name="NVIDIA B200")).why


def test_reports_pair_up_by_name_and_shape_first() -> None:
    before = [
        kernel(name="a", ident="0"),
        kernel(name="a", grid=(9, 1, 1), ident="1"),
        kernel(name="gone", ident="2"),
    ]
    after = [
        kernel(name="a", grid=(9, 1, 1), ident="0"),
        kernel(name="a", ident="1"),
        kernel(name="new", ident="2"),
    ]
    pairs, only_before, only_after = compare_reports(before, after)
    assert {(pair.before.id, pair.after.id) for pair in pairs} == {("0", "1"), ("1", "0")}
    assert [group.name for group in only_before] == ["gone"]
    assert [group.name for group in only_after] == ["new"]


def test_the_only_kernel_of_each_report_is_set_beside_the_other_whatever_it_is_called() -> None:
    own, library = kernel(name="my_attention"), kernel(name="flash_fwd_kernel")
    pairs, *others = compare_reports([own], [library])
    assert [(pair.before.name, pair.after.name) for pair in pairs] == [(own.name, library.name)]
    assert others == [[], []]
    assert compare_reports([own, kernel(name="more", ident="1")], [library])[0] == []


def test_a_finding_about_memory_bound_kernels_cites_the_counters() -> None:
    names = ["void at::native::elementwise_kernel<1>(int)", "void at::native::softmax_kernel<2>(int)"]
    launches = [(name, "2640,1,1", 400_000) for name in names * 4]
    report = (kernel(name=names[0]), kernel(name=names[1], ident="1"))
    for profiles, cited in (((), False), (report, True)):
        found = diagnose(timeline(profiles, launches)).findings
        finding = next(each for each in found if each.category is Category.MEMORY_BOUND_KERNELS)
        assert ("Nsight Compute measured" in finding.explanation) is cited
        assert (finding.cannot_tell == "") is cited


def test_two_reports_are_compared_by_their_kernels() -> None:
    before = trace_of(kernel({"gpu__time_duration.sum": 400_000}), kernel(name="gone", ident="1"))
    after = trace_of(kernel({"gpu__time_duration.sum": 100_000}))
    comparison = compare(before, after)
    assert (comparison.step.before, comparison.step.after) == (400_000, 100_000)
    assert comparison.verdict.startswith("4.00x faster")
    assert [profile.speedup for profile in comparison.profiles] == [4.0]
    text = as_text(comparison)
    assert "some_kernel: 4 times faster (400 us -> 100 us)" in text
    assert as_json(comparison)["profiles"][0]["speedup"] == 4.0
    assert "4 times faster" in page_of(comparison_report(comparison)).text


@pytest.mark.parametrize(
    ("profiled", "checked"), [(REPORT_GELU, True), ("void somebody_elses(float*)", False)]
)
def test_a_kernel_report_of_another_program_is_told_apart(profiled: str, checked: bool) -> None:
    skipped = diagnose(timeline((kernel(name=profiled),), [(TIMELINE_GELU, "1,1,1", 1000)] * 3)).skipped
    assert any("another program" in why for why in skipped.values()) is not checked
