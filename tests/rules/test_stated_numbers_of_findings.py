"""From which numbers on findings appear and say a thing, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.model import Counter
from parsers.model.results import TimeOf
from rules.analysis.analysis import Analysis
from rules.analysis.beside.recorded_work import OperatorWork, RecordedWork
from rules.analysis.cpu.cpu_time import cpu_time
from rules.analysis.cpu.sampled_stacks import OwnFrame, OwnTime
from rules.analysis.gpu.step_kernels import _computes_longer
from rules.catalog import (
    cpu_many_operators,
    gpu_memory,
    kernel_divergence,
    kernel_local_memory,
    kernel_partial_warps,
    memory_bound_kernels,
    what_was_recorded,
)
from rules.catalog.launching_too_slowly import _advice, _explanation, _interval
from rules.catalog.load_tests import _Served, _told_requests
from rules.catalog.memory_bound_kernels import _Slowed
from rules.catalog.other_logs import KernelTime, KernelTimes, _parts_account, _times_account, _work_account
from rules.catalog.printed_times import _advice as _advice_on_printed
from rules.catalog.sampled_cpu import _headline, _told_of
from rules.catalog.uneven_steps import UnevenSteps
from rules.terms import DEFAULTS, Culprit, CulpritKind
from tests.rules.builder import TinyTrace, steps
from tests.rules.kernel_profiles import kernel


@pytest.mark.parametrize(("computes", "told"), [(0.051, True), (0.049, False)])
def test_what_a_loop_computes_is_told_from_a_tenth_of_its_time_on(
    computes: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(20):
            trace.op(50 * number, 50 * number + 50, "aten::linear")

    analysis = Analysis(steps(4, 1_000, body).build())
    time = cpu_time(analysis)
    assert time is not None
    loop = SimpleNamespace(times=20, operators=time.operators[:20], start=0, end=1_000_000, own_weights=False)
    found = SimpleNamespace(share=0.5, computes=computes, steps=4, loops=[loop])
    monkeypatch.setattr(cpu_many_operators, "item_loops", lambda *_: found)
    (finding,) = cpu_many_operators.CpuItemLoop().of_steps(time)
    assert ("They compute for" in finding.explanation) is told


@pytest.mark.parametrize("part", ["kernels", "scopes"])
@pytest.mark.parametrize(("ms", "told"), [(5.0, True), (4.9, False)])
def test_kernels_and_scopes_are_named_from_a_twentieth_of_the_time_on(
    part: str, ms: float, told: bool
) -> None:
    kernels = (KernelTime("gemm", 100.0 - ms), KernelTime("own" if part == "kernels" else "gelu", ms))
    scopes = (("own", ms),) if part == "scopes" else ()
    assert ("own" in _times_account(KernelTimes(kernels, scopes))) is told


@pytest.mark.parametrize(("amount", "told"), [(5.0, True), (4.9, False)])
def test_operators_are_named_from_a_twentieth_of_the_operations_on(amount: float, told: bool) -> None:
    rows = tuple(
        OperatorWork(name, "[[8, 8]]", '["float"]', 1, operations)
        for name, operations in (("aten::mm", 100.0 - amount), ("aten::bmm", amount))
    )
    assert ("aten::bmm" in _work_account(RecordedWork(rows, 2, ()))) is told


@pytest.mark.parametrize(("took", "told"), [(50, True), (49, False)])
def test_stages_of_requests_are_named_from_a_twentieth_of_their_time_on(took: int, told: bool) -> None:
    served = _Served(np.array([0]), np.array([1_000]), (("decode", 1_000 - took), ("queue", took)))
    assert ("queue" in _told_requests(served)) is told


@pytest.mark.parametrize(("time", "told"), [(10, True), (9, False)])
def test_parts_of_a_kernel_are_named_from_a_hundredth_of_the_warps_time_on(time: int, told: bool) -> None:
    parts = (("compute", 1_000 - time), ("store", time))
    inside = SimpleNamespace(warps=(1,), units=1, slowest=1.0, whole=1_000, parts=parts)
    assert ("store" in _parts_account(cast(Any, inside))) is told


def frame(function: str, ns: int, below: str = "", below_ns: int = 0) -> OwnFrame:
    return OwnFrame(function, "train.py", 3, ns, below, below_ns, 0, "")


@pytest.mark.parametrize(("ns", "told"), [(10, True), (9, False)])
def test_of_many_functions_those_are_told_that_take_a_hundredth(ns: int, told: bool) -> None:
    own = frame("main", ns)
    assert _told_of(OwnTime(1_000, 0, (own,), ()), []) == [own] * told


def test_a_title_names_what_a_script_calls_in_24_characters() -> None:
    calling = frame("<module>", 900, "collate_" + 30 * "x", 800)
    title = str(_headline(OwnTime(1_000, 0, (calling,), ()), [calling]).what)
    (called,) = [word for word in title.replace(",", "").split() if word.startswith("collate_")]
    assert len(called) == 24


@pytest.mark.parametrize(("saving", "found"), [(0.05, True), (0.049, False)])
def test_divergence_matters_that_costs_a_twentieth(
    saving: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = SimpleNamespace(saving=saving, text="")
    monkeypatch.setattr(kernel_divergence, "results_of", lambda *_: [result])
    assert bool(kernel_divergence.KernelDivergence().fault(kernel())) is found


@pytest.mark.parametrize(("saving", "found"), [(0.05, True), (0.049, False)])
def test_partly_empty_warps_matter_that_cost_a_twentieth(
    saving: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = SimpleNamespace(saving=saving, text="")
    monkeypatch.setattr(kernel_partial_warps, "results_of", lambda *_: [result])
    assert bool(kernel_partial_warps.KernelPartialWarps().fault(kernel(block=(1, 1, 1)))) is found


@pytest.mark.parametrize(("share", "found"), [(0.1, True), (0.099, False)])
def test_a_tenth_of_the_accesses_to_local_memory_matters(
    share: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_local_memory, "local_share", lambda _: share)
    assert bool(kernel_local_memory.KernelLocalMemory().fault(kernel())) is found


def facts(**changed: Any) -> Any:
    usual = {
        "kernels": 40, "mean_kernel_ns": 5_000.0, "interval_ns": 9_000.0, "optimizer_share": 0.0,
        "training": True, "graphs": False, "compiling_ns": 0, "replays": 0, "again": 1.0,
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **changed})


@pytest.mark.parametrize(("mean_ns", "told"), [(9_900.0, True), (10_100.0, False)])
def test_kernels_of_ten_microseconds_are_too_short_for_a_loop(mean_ns: float, told: bool) -> None:
    trace = TinyTrace()
    trace.operation(0, 10, "gemm")
    analysis = cast(Any, SimpleNamespace(trace=trace.build(), thresholds=DEFAULTS))
    culprit = Culprit(CulpritKind.REGION, "forward")
    assert (len(_advice(analysis, facts(mean_kernel_ns=mean_ns), culprit)) == 3) is told


def test_graphs_leave_one_and_a_half_microseconds_between_kernels() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(0, 1, "aten::mm")
        trace.kernels(0, 10, 5, 90)

    analysis = Analysis(steps(4, 1_000, body).build())
    waiting = SimpleNamespace(part="85 % of every step", ns=3_000_000, on_worst="", where=lambda *_: "")
    text = str(_explanation(analysis, cast(Any, waiting), facts()))
    assert "would leave gaps of about" in text
    assert "15.0 us" in text


@pytest.mark.parametrize(("gaps", "looked_at"), [(19_999, 19_999), (20_000, 10_000)])
def test_every_second_of_twenty_thousand_gaps_tells_how_fast_kernels_are_launched(
    gaps: int, looked_at: int
) -> None:
    asked: list[int] = []

    class Column:
        """Notes how many rows are asked for."""

        def __getitem__(self, rows: Any) -> Any:
            asked.append(len(rows))
            return np.array([-1])

    none = np.empty(0, np.int64)
    trace = SimpleNamespace(
        links=SimpleNamespace(launch_of=lambda _: none), events=SimpleNamespace(start=np.array([0]))
    )
    analysis = SimpleNamespace(idle=SimpleNamespace(next_operation=Column()), trace=trace)
    waiting = SimpleNamespace(rows=np.arange(gaps))
    assert _interval(cast(Any, analysis), cast(Any, waiting), none) == 0
    assert asked == [looked_at]


def traffic(
    moved: float, monkeypatch: pytest.MonkeyPatch, count: int = 1
) -> tuple[memory_bound_kernels.Traffic | None, int]:
    """Of pointwise kernels of 1 us that move so many bytes each, and how many of them were looked at."""
    trace = TinyTrace()
    trace.shapes(trace.op(0, 1, "aten::add"), [[8, 8]], ["float"])
    for number in range(count):
        trace.operation(10 * number, 10 * number + 1, "vectorized_elementwise_kernel<4>")
    analysis = Analysis(trace.build())
    asked: list[int] = []

    def work(*_: object) -> Any:
        asked.append(1)
        return SimpleNamespace(moved=moved)

    monkeypatch.setattr(memory_bound_kernels, "operator_of", lambda *_: 0)
    monkeypatch.setattr(memory_bound_kernels, "stated_work", work)
    found = memory_bound_kernels.pointwise_traffic(analysis, 0, analysis.trace.gpu_operations)
    assert found is None or found.each == moved
    return found, len(asked)


@pytest.mark.parametrize(
    ("bandwidth", "each", "told"), [(7.9e9, 1e6, True), (8.1e9, 1e6, False), (7.9e9, 0.9e6, False)]
)
def test_traffic_below_that_of_any_gpu_s_memory_is_not_of_it(
    bandwidth: float, each: float, told: bool
) -> None:
    assert memory_bound_kernels.Traffic(bandwidth, 0.0, each).is_elsewhere is told


@pytest.mark.parametrize(("peak", "lost"), [(0.0, 750), (10e9, 750), (40e9, 900)])
def test_slow_memory_costs_what_the_slowest_gpu_s_own_would_not_or_this_one_s(peak: float, lost: int) -> None:
    busy = np.array([0]), np.array([1_000])
    slowed = _Slowed(0, np.array([0]), busy, memory_bound_kernels.Traffic(4e9, peak, 1e6))
    assert slowed.lost_ns == lost


@pytest.mark.parametrize(("times", "known"), [(1.09, True), (1.11, False)])
def test_traffic_of_more_than_a_tenth_beyond_the_peak_is_none(
    times: float, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU of tests moves 3.35 MB in a microsecond."""
    assert (traffic(times * 3.35e6, monkeypatch)[0] is not None) is known


def test_the_twenty_longest_kernels_tell_the_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    assert traffic(1e6, monkeypatch, count=21)[1] == 20


@pytest.mark.parametrize(("used", "told"), [(1.99e9, True), (2.01e9, False)])
def test_reserved_memory_is_not_used_from_a_gigabyte_on(used: float, told: bool) -> None:
    trace = TinyTrace()
    for device in range(2):
        trace.operation(0, 10, "gemm", device=device)
    reserved, allocated = (
        Counter(name, "B", np.array([0]), np.array([value]), None, None)
        for name, value in (("reserved", 3e9), ("allocated", used))
    )
    found = gpu_memory.MemoryNearlyFull()._judge(Analysis(trace.build()), reserved, allocated)
    assert (found is not None) is told


def freeing(freed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    relief = SimpleNamespace(freed=freed, said=lambda *_: "Checkpoint")
    monkeypatch.setattr(gpu_memory, "reliefs", lambda *_: [relief])
    monkeypatch.setattr(gpu_memory, "ranks_of", lambda _: 1)


@pytest.mark.parametrize(("freed", "told"), [(20, True), (19, False)])
def test_what_frees_a_fiftieth_of_the_peak_is_worth_saying(
    freed: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeing(freed, monkeypatch)
    summary = SimpleNamespace(account=(), peak_at=0, peak_allocated=1_000)
    summary.account = SimpleNamespace()
    assert gpu_memory._helps(cast(Any, None), cast(Any, summary)) == ("Checkpoint",) * told


@pytest.mark.parametrize(("freed", "told"), [(100, True), (99, False)])
def test_what_frees_a_tenth_of_what_was_asked_for_is_worth_saying(
    freed: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeing(freed, monkeypatch)
    last = SimpleNamespace(
        failure=SimpleNamespace(requested=1_000, time=0), fragmented=False, own_limit=False
    )
    analysis = cast(Any, SimpleNamespace(trace=None))
    assert ("Checkpoint" in gpu_memory._remedies(analysis, cast(Any, None), cast(Any, last))) is told


@pytest.mark.parametrize(("calls", "told"), [(2, True), (3, False)])
def test_a_call_made_twice_belongs_to_the_start_of_a_run(calls: int, told: bool) -> None:
    main = SimpleNamespace(of=TimeOf.CALLS, printed=1.0)
    first = SimpleNamespace(
        calls=calls, is_one_call=False, awaits=None, waits=False, share=0.9, name="cudaMalloc"
    )
    (said,) = _advice_on_printed(cast(Any, main), cast(Any, first), 0.0, (), "", has_gpu=False)
    assert str(said).startswith("It is called once or twice") is told


@pytest.mark.parametrize(("more", "computes"), [(80, True), (79, False)])
def test_steps_compute_longer_where_kernels_take_four_fifths_of_what_they_take_more(
    more: int, computes: bool
) -> None:
    length = [1_000] * 6 + [1_100]
    every = [
        SimpleNamespace(start=2_000 * number, end=2_000 * number + each, duration=each, rank=None)
        for number, each in enumerate(length)
    ]
    analysis = SimpleNamespace(
        active_devices=(0,),
        steady_steps=every,
        budget=lambda _, start, __: SimpleNamespace(compute_ns=500 + more * (start == every[-1].start)),
    )
    assert _computes_longer(cast(Any, analysis), [0], cast(Any, every[-1:]), 1_000.0) is computes


@pytest.mark.parametrize(("long_us", "told"), [(60, True), (30, False)])
def test_one_kernel_s_time_varies_where_it_spreads_as_far_as_its_mean(long_us: float, told: bool) -> None:
    """One run in five is long, the others take 5 us: their spread is 1.38 and 1.0 times the mean."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(10):
            trace.operation(90 * number, 90 * number + (long_us if number % 5 == 4 else 5), "gemm")

    found = list(UnevenSteps()._kernels(Analysis(steps(4, 1_000, body).build())))
    assert bool(found) is told


@pytest.mark.parametrize("which", ["set_aside", "read_later"])
@pytest.mark.parametrize(("took", "told"), [(50, True), (49, False)])
def test_time_set_aside_is_told_from_a_twentieth_of_what_is_analysed_on(
    which: str, took: int, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_was_recorded, "subject_of", lambda _: None)
    monkeypatch.setattr(what_was_recorded.WhatWasRecorded, "_wait", lambda *_: "told")
    analysed = SimpleNamespace(**{"set_aside": None, "read_later": None, which: SimpleNamespace(took=took)})
    analysis = cast(Any, SimpleNamespace(analysed=analysed, window_ns=1_000))
    assert bool(list(what_was_recorded.WhatWasRecorded().check(analysis))) is told
