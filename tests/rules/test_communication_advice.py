"""What to change about exposed communication follows from what is sent; what one recording cannot tell is said."""

from __future__ import annotations

from typing import Any

import pytest

from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding, Severity
from rules.fixes.plan import make_plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import promised

KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def exposed(
    collective: str,
    *,
    count: int = 4,
    size: int = 8_000_000,
    trains: bool = True,
    kernel: str = KERNEL,
    caller: str = "",
) -> Finding:
    """Four steps in which messages stand alone between computations."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(count):
            start = 100.0 * number
            trace.operation(start, start + 60, "sm90_gemm", start)
            more: dict[str, Any] = {"collective": collective} if collective else {}
            trace.operation(
                start + 61,
                start + 99,
                kernel,
                start + 10,
                stream=20,
                message_bytes=size,
                group="0",
                group_size=4,
                **more,
            )
        if caller:
            trace.op(52, 60, caller)
        if trains:
            trace.op(1, 50, "autograd::engine::evaluate_function: MmBackward0")

    trace = steps(4, 100 * count, body, into=TinyTrace(rank=0))
    findings = diagnose(trace.build()).findings
    return next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)


@pytest.mark.parametrize(
    ("caller", "advised"),
    [("DistributedDataParallel.forward", "Gather less"), ("FSDP::all_gather", "FSDP"), ("", "FSDP")],
)
def test_who_keeps_the_whole_model_gathers_something_else(caller: str, advised: str) -> None:
    advice = " ".join(exposed("_allgather_base", caller=caller).advice)
    assert advised in advice
    assert ("FSDP" in advice) is (advised == "FSDP")


@pytest.mark.parametrize(
    ("collective", "advised"),
    [
        ("all_to_allv", "busiest expert"),
        ("send", "micro-batches"),
        ("recv", "micro-batches"),
        ("", "micro-batches"),
        ("_allgather_base", "FSDP"),
        ("_reduce_scatter_base", "FSDP"),
        ("allreduce", "DistributedDataParallel"),
    ],
)
def test_what_is_sent_decides_what_is_advised(collective: str, advised: str) -> None:
    found = exposed(collective)
    assert advised in " ".join(found.advice)
    assert ("DistributedDataParallel" in " ".join(found.advice)) is (collective == "allreduce")


@pytest.mark.parametrize(
    ("count", "trains", "split"), [(8, False, True), (7, False, False), (8, True, False)]
)
def test_many_sums_in_a_program_that_does_not_train_are_those_of_split_layers(
    count: int, trains: bool, split: bool
) -> None:
    advice = " ".join(exposed("allreduce", count=count, trains=trains).advice)
    assert ("tensor parallel" in advice) is split
    assert ("bucket_cap_mb" in advice) is not split


@pytest.mark.parametrize(
    ("kernel", "others", "told"),
    [
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 0, True),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 0, False),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 4, True),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 6, False),
    ],
)
def test_sums_of_32_bits_are_told_to_travel_in_16(kernel: str, others: int, told: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for number in range(10):
            start = 100.0 * number
            trace.operation(start, start + 50, "sm90_gemm", start)
            name = "ncclDevKernel_AllGather_RING_LL" if number < others else kernel
            more: dict[str, Any] = {"collective": "_allgather_base"}
            trace.operation(
                start + 51, start + 99, name, start + 10, stream=20, message_bytes=8_000_000, **more
            )

    findings = diagnose(steps(4, 1_000, body, into=TinyTrace(rank=0)).build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert any("16 bits instead of 32" in each for each in found.advice) is told


@pytest.mark.parametrize(
    ("count", "size", "told"), [(4, 200_000_000, True), (4, 199_000_000, False), (5, 200_000_000, False)]
)
def test_a_few_large_messages_are_said_to_travel_in_one_bucket(count: int, size: int, told: bool) -> None:
    found = exposed("allreduce", count=count, size=size)
    assert ("all gradients travel in one bucket" in found.explanation) is told


def test_one_rank_s_recording_does_not_tell_transfer_from_waiting() -> None:
    found = exposed("allreduce")
    assert "waiting for other ranks included" in found.explanation
    assert "record every rank" in found.cannot_tell


def group_of_four(ranks: int, merged: bool = False) -> list[Finding]:
    trace = TinyTrace()
    for index in range(4):
        for rank in range(ranks):
            trace.rank, trace.shift = None if merged else rank, 1000.0 * index
            trace.step(0, 1000, f"ProfilerStep#{index}")
            trace.operation(0, 500 + 20 * rank, "sm90_gemm", 0, device=rank)
            trace.collective(600, 990, 590, device=rank)
    return [
        each for each in diagnose(trace.build()).findings if each.category is Category.EXPOSED_COMMUNICATION
    ]


@pytest.mark.parametrize("merged", [False, True], ids=["a file each", "one file of all"])
@pytest.mark.parametrize(("ranks", "missing"), [(4, False), (3, True)])
def test_ranks_that_were_not_recorded_are_said_to_be_missing(ranks: int, missing: bool, merged: bool) -> None:
    (found,) = group_of_four(ranks, merged)
    assert ("the run has 4 ranks, and only 3 are open" in found.cannot_tell) is missing
    assert found.confidence == ("medium" if missing else "high")
    assert "waiting for other ranks included" not in found.explanation


@pytest.mark.parametrize(("stream", "shared"), [(7, True), (20, False)])
def test_communication_on_the_stream_of_the_computation_is_told(stream: int, shared: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(0, 600, "sm90_gemm", 0)
        trace.collective(601, 990, 10, stream=stream)

    findings = diagnose(steps(4, 1000, body, into=TinyTrace(rank=0)).build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert ("runs on the computation's stream" in found.explanation) is shared
    assert ("async_op=True" in found.advice[0]) is shared


@pytest.mark.parametrize(("turns", "unequal"), [(True, True), (False, False)])
def test_ranks_that_wait_for_each_other_in_turn_get_unequal_work(turns: bool, unequal: bool) -> None:
    trace = TinyTrace()
    for index in range(8):
        trace.shift = 1000.0 * index
        for rank in range(4):
            trace.rank = rank
            much = turns and rank == index % 4
            trace.step(0, 1000, f"ProfilerStep#{index}")
            trace.operation(0, 800 if much else 400, "sm90_gemm", 0, device=rank)
            trace.collective(801 if much else 401, 900 if turns else 500, 10, device=rank)
    findings = diagnose(trace.build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert ("the same amount of work" in found.advice[0]) is unequal
    assert found.headline.what == (
        "Ranks wait for each other in turn" if turns else "Communication is not overlapped"
    )


@pytest.mark.parametrize(("took", "told"), [(1_010, True), (990, False)])
def test_a_collective_is_long_that_takes_ten_times_as_long_as_the_others(took: float, told: bool) -> None:
    trace = TinyTrace()
    for rank in range(2):
        trace.rank = rank
        trace.operation(0, 80, "sm90_gemm", 0, device=rank)
        for number in range(4):
            start = 100 + bool(number) * took + 110 * number
            trace.collective(start, start + (100 if number else took), 10, device=rank, group_size=2)
        trace.operation(took + 600, took + 750, "sm90_gemm", 50, device=rank)
    findings = diagnose(trace.build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert (found.headline.what == "One long allreduce") is told


@pytest.mark.parametrize(("recorded", "ranks", "waits"), [(2, 2, False), (2, 4, True), (1, 0, True)])
def test_one_long_collective_waits_for_another_rank_or_sends_more(
    recorded: int, ranks: int, waits: bool
) -> None:
    """Nobody knows whether a missing rank came late, nor how many there are where no group states its size."""
    trace = TinyTrace()
    for rank in range(recorded):
        trace.rank = rank
        trace.operation(0, 80, "sm90_gemm", 0, device=rank)
        for start, end in ((100, 10_100), (10_200, 10_300), (10_400, 10_500), (10_600, 10_700)):
            trace.collective(start, end, 10, device=rank, collective="allgather", group_size=ranks)
        trace.operation(10_750, 10_900, "sm90_gemm", 50, device=rank)
    findings = diagnose(trace.build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert found.headline.what == "One long allgather"
    assert ("it hardly waits for another rank" in found.explanation) is not waits
    assert ("do not say whether the network is slow" in found.explanation) is waits
    assert found.advice[0].startswith("Open the recordings of all ranks" if waits else "Send less")
    assert (found.severity, found.confidence) == (Severity.MEDIUM if waits else Severity.HIGH, "low")
    assert found.of_recording


def first_meeting(
    took: float = 150_000,
    size: int = 4,
    *,
    late: float = 0.0,
    rounds: int = 8,
    compute: float = 500.0,
    at_first: bool = True,
) -> Finding | None:
    """Two ranks whose first allreduce takes ``took`` us, of which the other one comes ``late``; then equal rounds."""
    trace = TinyTrace()
    for rank in range(2):
        trace.rank = rank
        at = 0.0
        trace.operation(at, at + 10, "fill", 0, device=rank)
        for number in range(rounds):
            long = number == (0 if at_first else rounds // 2)
            begin = at + 20 + (late if long and rank else 0.0)
            end = at + 20 + (took if long else 1_000)
            trace.collective(
                begin, end, begin - 10, device=rank, group_size=2, size=size if long else 33_000_000
            )
            for place in range(3):
                start = end + place * compute / 3
                trace.operation(start, start + compute / 3, f"gemm{number}_{place}", end - 5, device=rank)
            at = end + compute
    findings = diagnose(trace.build()).findings
    return next((each for each in findings if each.category is Category.EXPOSED_COMMUNICATION), None)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "Start-up: the first allreduce is long"),
        ({"took": 100_010.0}, "Start-up: the first allreduce is long"),
        ({"took": 99_900.0}, "One long allreduce"),
        ({"size": 33_000_000}, "Start-up: the first allreduce is long"),
        ({"size": 33_000_001}, "One long allreduce"),
        ({"at_first": False}, "One long allreduce"),
        ({"late": 100_000.0}, "One long allreduce"),
        ({"rounds": 2}, "Start-up: the first allreduce is long"),
        ({"rounds": 2, "took": 99_900.0}, "Communication is not overlapped"),
    ],
)
def test_a_first_meeting_in_which_nobody_is_late_and_little_is_sent_makes_connections(
    changed: dict[str, Any], told: str
) -> None:
    found = first_meeting(**changed)
    assert found is not None
    assert found.headline.what == told
    assert ("when ranks make their connections" in found.explanation) is told.startswith("Start-up")


@pytest.mark.parametrize(("compute", "severity"), [(15_000.0, Severity.HIGH), (22_000.0, Severity.MEDIUM)])
def test_a_start_is_high_only_where_it_is_most_of_the_recording(compute: float, severity: Severity) -> None:
    found = first_meeting(compute=compute)
    assert found is not None
    assert (found.severity, found.of_recording, found.fix) == (severity, True, "")
    assert "comes once" in found.advice[0]


@pytest.mark.parametrize(("kind", "told"), [("allreduce", True), ("", True)])
def test_a_single_collective_of_a_rank_alone_says_nothing_of_the_network(kind: str, told: bool) -> None:
    trace = TinyTrace(rank=0)
    trace.operation(0, 80, "sm90_gemm", 0)
    trace.collective(100, 10_100, 10, collective=kind, group_size=8)
    trace.operation(10_750, 10_900, "sm90_gemm", 50)
    findings = diagnose(trace.build()).findings
    (found,) = (each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert found.headline.what == f"One long {kind or 'collective'}"
    assert (found.severity, found.confidence) == (Severity.MEDIUM, "low")
    assert "and the others" not in found.explanation


@pytest.mark.parametrize(
    ("ranks", "took", "severity", "confidence"),
    [
        (1, 1_900.0, Severity.HIGH, "medium"),
        (1, 2_200.0, Severity.MEDIUM, "low"),
        (2, 2_200.0, Severity.HIGH, "high"),
    ],
)
def test_where_most_of_a_step_may_be_waiting_for_a_rank_that_is_not_open_the_others_are_asked_for(
    ranks: int, took: float, severity: Severity, confidence: str
) -> None:
    trace = TinyTrace()
    for number in range(6):
        trace.shift = number * (2_020 + took)
        for rank in range(ranks):
            trace.rank = rank
            trace.step(0, 2_020 + took, f"ProfilerStep#{number}")
            trace.operation(0, 2_000, "sm90_gemm", 0, device=rank)
            trace.collective(2_010, 2_010 + took, 10, device=rank, group_size=2)
    findings = diagnose(trace.build()).findings
    (found,) = (each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    assert (found.severity, found.confidence) == (severity, confidence)
    assert ("Open the recordings of all ranks" in found.advice[0]) is (confidence == "low")


@pytest.mark.parametrize(
    ("rounds", "later", "low"), [(5, 0.0, True), (4, 0.0, False), (12, 30_000.0, False), (12, 5_000.0, True)]
)
def test_a_rank_that_only_starts_later_is_late_once(rounds: int, later: float, low: bool) -> None:
    trace = TinyTrace()
    for rank in range(2):
        trace.rank = rank
        at = 0.0
        trace.operation(at, at + 10, "fill", 0, device=rank)
        for number in range(rounds):
            late = 100_000 if not number else later if number == 1 else 0
            begin, end = at + 20 + (late if rank else 0), at + 20 + late + 1_000
            trace.collective(begin, end, begin - 10, device=rank, group_size=2)
            trace.operation(end, end + 20_000, f"gemm{number}", end - 5, device=rank)
            at = end + 20_000
    findings = diagnose(trace.build()).findings
    (found,) = (each for each in findings if each.category is Category.STRAGGLER)
    assert ("this rank starts later, which comes once" in found.explanation) is low
    assert (found.severity is Severity.LOW) is low
    assert found.of_recording is low


@pytest.mark.parametrize(
    ("late", "slow"),
    [
        ({"length": 135.0}, True),
        ({"length": 104.0, "count": 7}, False),
        ({"length": 135.0, "blocks": 200}, False),
        ({"length": 104.0, "pause": 40.0}, False),
    ],
    ids=["the same kernels, slower", "more kernels", "larger kernels", "slower launches"],
)
def test_a_gpu_that_is_slow_is_told_from_one_that_has_more_to_do(late: dict[str, float], slow: bool) -> None:
    trace = TinyTrace()
    for index in range(5):
        trace.shift = 1000.0 * index
        for rank in range(4):
            trace.rank = rank
            what: dict[str, float] = late if rank == 2 else {}
            each, pause = what.get("length", 100.0), what.get("pause", 0.0)
            trace.step(0, 1000, f"ProfilerStep#{index}")
            at = 0.0
            for number in range(int(what.get("count", 5))):
                name = "sm90_gemm" if number % 2 else "softmax"
                launch = at - 6 if pause and number else 2.0 * number
                trace.operation(
                    at + 10,
                    at + 10 + each,
                    name,
                    launch,
                    launch_us=1,
                    device=rank,
                    grid=int(what.get("blocks", 132)),
                )
                at += each + pause
            trace.collective(at + 11, 1000, at if pause else 20, launch_us=1, device=rank)
    (found,) = [each for each in diagnose(trace.build()).findings if each.category is Category.STRAGGLER]
    assert found.rank == 2
    assert ("the same kernels take 35 % longer on its GPU" in found.explanation) is slow
    assert found.advice[0].startswith("Look at rank 2's GPU") is slow


@pytest.mark.parametrize(
    ("caller", "advised"),
    [
        ("nccl:all_to_all", "busiest expert"),
        ("c10d::alltoall_base_", "busiest expert"),
        ("All2All_Pooled_Wait", "TrainPipelineSparseDist"),
        ("## all2all_data:kjt splits ##", "TrainPipelineSparseDist"),
        ("nccl:send", "micro-batches"),
    ],
)
def test_who_asks_for_sends_and_receives_says_whether_they_are_an_all_to_all(
    caller: str, advised: str
) -> None:
    assert advised in " ".join(exposed("", caller=caller).advice)


@pytest.mark.parametrize(
    ("unit", "every_us", "told"), [("B/s", 10, True), ("B/s", 2000, False), ("B", 10, False)]
)
def test_what_the_network_adapters_send_while_communication_is_exposed_is_told(
    unit: str, every_us: int, told: bool
) -> None:
    """Few samples say nothing about that time, and bytes without a time are no rate."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.operation(0, 600, "sm90_gemm", 0)
        trace.collective(600, 1000, 10, stream=20)

    trace = steps(4, 1000, body, into=TinyTrace(rank=0))
    times = [float(time) for time in range(0, 4001, every_us)]
    trace.counter(
        "NIC mlx5_0 Bytes sent", unit, [(time, 3e9 if time % 1000 >= 600 else 8e9) for time in times]
    )
    trace.counter("NIC mlx5_1 Bytes sent", unit, [(time, 0) for time in times])
    findings = diagnose(trace.build()).findings
    found = next(each for each in findings if each.category is Category.EXPOSED_COMMUNICATION)
    said = "Meanwhile the busiest network adapter, mlx5_0, sends 3.00 GB/s, and at most 8.00 GB/s"
    assert (said in found.explanation) is told
    assert ("network adapter" in found.explanation) is told


def test_a_kernel_that_communicates_is_named_without_its_parameters() -> None:
    assert exposed("").culprit.name == "ncclDevKernel_SendRecv"


@pytest.mark.parametrize(("transfer", "found"), [(500, True), (20, False)])
def test_communication_that_computation_waits_for_is_hidden(transfer: float, found: bool) -> None:
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            for place in range(5):
                made.operation(20 + place * 200, 220 + place * 200, "void gemm", 5 + place * 6, device=rank)
            made.collective(1020, 1020 + transfer, 60, device=rank, stream=7)
            made.operation(1020 + transfer, 1120 + transfer, "void gemm", 80, device=rank)
            made.call(90, 1130 + transfer, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1140 + transfer, body, into=trace)
    assert ("hide-communication" in promised(make_plan(Analysis(trace.build())))) is found
