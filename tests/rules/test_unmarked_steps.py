"""Steps of recordings without marks: the cycle that explains the run, never a layer, a request or a part of a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers.model import EventKind, Trace
from rules.analysis.steps.marks import mark_of
from rules.analysis.steps.repetition import repetitions, rounds_of
from rules.analysis.steps.steps import find_steps, launched_operations
from tests.examples import one_of
from tests.opened import opened
from tests.rules.builder import TinyTrace, ns

OPTIMIZER = "void at::native::multi_tensor_apply_kernel<FusedAdam>"


def unmarked(trace: Trace) -> list[int]:
    """How many steps each rank has, by its GPU's operations alone."""
    ranks = sorted({-1 if lane.rank is None else lane.rank for lane in trace.lanes})
    return [len(repetitions(trace, launched_operations(trace, rank)[0])) for rank in ranks]


class Program:
    """Writes operations one after the other, each 8 us long and launched 2 us before it starts."""

    def __init__(self) -> None:
        self.trace, self.now = TinyTrace(), 0.0

    def run(self, *names: str, thread: int = 100) -> None:
        for name in names:
            self.trace.operation(self.now + 2, self.now + 10, name, self.now, launch_us=1, thread=thread)
            self.now += 12

    def read_back(self) -> None:
        self.trace.copy(self.now + 2, self.now + 10, "DtoH", self.now, launch_us=1)
        self.now += 12

    def layers(self, count: int) -> None:
        for _ in range(count):
            self.run("norm", "gemm_a", "attention", "gemm_b", "gelu", "gemm_c")

    def counted(self) -> list[int]:
        return unmarked(self.trace.build())


def test_a_training_step_holds_all_layers_of_both_passes() -> None:
    program = Program()
    for _ in range(5):
        program.run("embedding")
        program.layers(12)
        program.run("cross_entropy")
        for _ in range(12):
            program.run("gemm_bwd_a", "attention_bwd", "gemm_bwd_b")
        program.run(OPTIMIZER, OPTIMIZER)
    assert program.counted() == [5]


def test_layers_of_one_forward_pass_are_no_steps() -> None:
    program = Program()
    program.run("embedding", "rope", "positions")
    program.layers(24)
    program.run("norm", "gemm_head", "argmax")
    assert program.counted() == [0]


def test_layers_of_a_recording_that_begins_and_ends_among_them_are_no_steps() -> None:
    program = Program()
    program.run("gelu", "gemm_c")
    program.layers(24)
    program.run("norm", "gemm_a")
    assert program.counted() == [0]


def test_a_layer_that_reads_a_count_back_is_no_step() -> None:
    program = Program()
    for _ in range(5):
        program.run("embedding")
        for _ in range(12):
            program.run("norm", "gemm_a", "mask")
            program.read_back()
        for _ in range(12):
            program.run("gemm_bwd_a", "norm_bwd", "mask_bwd")
        program.run(OPTIMIZER)
    assert program.counted() == [5]


def test_each_pass_that_reads_its_result_is_a_step_and_not_every_second_one() -> None:
    program = Program()
    for index in range(8):
        program.run("embedding")
        program.layers(6)
        program.run("log_even" if index % 2 else "log_odd")
        program.read_back()
    assert program.counted() == [8]


def test_work_that_comes_every_third_time_and_a_beginning_of_its_own_do_not_hide_the_steps() -> None:
    program = Program()
    for index in range(40):
        program.run(f"initialise_{index % 7}")
    for index in range(7):
        program.run("embedding")
        program.layers(10)
        program.run(OPTIMIZER)
        if index % 3 == 2:
            program.run(*["save"] * 6)
    assert program.counted() == [7]


def test_a_library_that_picks_another_variant_for_another_size_still_runs_the_same_step() -> None:
    program = Program()
    for index in range(6):
        program.run("embedding")
        for _ in range(10):
            program.run("norm", f"sm90_xmma_gemm_bf16_tile{index % 3}", "flash_fwd", f"nvjet_tst_{index}x64")
        program.run(OPTIMIZER)
    assert program.counted() == [6]


def test_a_recording_that_begins_within_a_step_counts_the_complete_ones() -> None:
    program = Program()
    program.layers(3)
    program.run("head", OPTIMIZER)
    for _ in range(4):
        program.run("embedding")
        program.layers(10)
        program.run("head", OPTIMIZER)
    program.run("embedding")
    program.layers(2)
    assert program.counted() == [4]


def test_the_cycles_are_cut_where_the_gpu_waits() -> None:
    program = Program()
    program.layers(1)
    program.run("head", OPTIMIZER)
    begins = []
    for _ in range(4):
        program.now += 500
        begins.append(program.now)
        program.run("embedding")
        program.layers(3)
        program.run("head", OPTIMIZER)
    found = find_steps(program.trace.build())
    assert [step.start for step in found] == [ns(begin + 2) for begin in begins]


@pytest.mark.parametrize(
    ("name", "thread", "found"),
    [
        ("nn.Module: Model_0", 100, 0),
        ("torch/nn/modules/module.py(1534): _call_impl", 100, 0),
        ("nn.Module: Model_0", 300, 10),  # another thread calls it
        ("train.py(33): main", 100, 10),
    ],
)
def test_what_one_call_of_a_module_launches_are_its_parts(name: str, thread: int, found: int) -> None:
    program = Program()
    program.run("embedding")
    begin = program.now
    for _ in range(10):
        program.run("norm", "gemm_a", "gelu", "gemm_b")
        program.read_back()
    program.trace.frame(begin - 5, program.now, name, thread)
    assert program.counted() == [found]


@pytest.mark.parametrize(
    ("region", "calls", "kernels", "found"),
    [
        ("Optimizer.step#Mine", 1, ("mul_functor", "sqrt_functor", "addcdiv_functor"), 0),
        ("Optimizer.step#Mine", 2, ("mul_functor", "sqrt_functor", "addcdiv_functor"), 20),
        ("train", 1, ("mul_functor", "sqrt_functor", "addcdiv_functor"), 20),
        ("Optimizer.step#LBFGS", 1, ("sgemm_nn", "sqrt_functor", "addcdiv_functor"), 20),
    ],
    ids=["one update", "two updates", "another region", "one that calls the model"],
)
def test_the_parameters_that_one_call_of_an_optimizer_updates_are_no_steps(
    region: str, calls: int, kernels: tuple[str, ...], found: int
) -> None:
    program = Program()
    for _ in range(calls):
        begin = program.now
        for _ in range(20 // calls):
            program.run(*kernels)
            program.now += 30
        program.trace.region(begin, program.now, region)
    assert program.counted() == [found]


@pytest.mark.parametrize(("threads", "found"), [(1, 16), (4, 0)])
def test_requests_that_threads_serve_side_by_side_are_no_steps(threads: int, found: int) -> None:
    program = Program()
    for turn in range(0, 16, threads):
        for name in ("embedding", "gemm_a", "gelu", "gemm_b", "head"):
            for thread in range(threads):
                program.run(f"{name}", thread=200 + (turn + thread) % threads)
        for _ in range(threads):
            program.read_back()
    assert program.counted() == [found]


@pytest.mark.parametrize(("streams", "found"), [(1, 4), (2, 4), (4, 0)])
def test_the_same_work_on_streams_of_their_own_is_no_step(streams: int, found: int) -> None:
    program = Program()
    for turn in range(4):
        for name in ("gemm_a", "gelu", "gemm_b", "head"):
            now = program.now
            program.trace.operation(now + 2, now + 10, name, now, launch_us=1, stream=20 + turn % streams)
            program.now += 12
    assert program.counted() == [found]


@pytest.mark.parametrize(("kernels", "found"), [(1, 0), (2, 12)])
def test_one_kernel_that_is_run_often_is_no_step(kernels: int, found: int) -> None:
    program = Program()
    for _ in range(12):
        program.trace.operation(
            program.now + 2,
            program.now + 4,
            "Memset (Device)",
            program.now,
            launch_us=1,
            kind=EventKind.MEMSET,
        )
        program.now += 6
        program.run(*("gemm", "relu")[:kernels])
    assert program.counted() == [found]


def test_steps_that_hold_little_of_the_gpu_s_work_are_given_up() -> None:
    trace = TinyTrace()
    for index in range(4):
        trace.region(index * 10, index * 10 + 9, f"step_{index}")
        trace.operation(index * 10 + 3, index * 10 + 5, "gemm", index * 10 + 1, launch_us=1)
    trace.operation(2000, 9000, "solver", 1990)
    assert find_steps(trace.build()) == ()


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["execute_context_1(40)_generation_0(0)", "execute_context_0(0)_generation_8(8)"], 2),
        (["execute_8192_context_9(sq8155sk8430)_generation_37(sq37sk34489)"], 1),
        (["step[EXTEND bs=1 toks=512]", "step[DECODE bs=8]", "step[DECODE bs=9]"], 3),
        (
            [
                "[Executor] _forward_step 7: 1 ctx reqs, 3 gen reqs",
                "[Executor] _forward_step 8: 0 ctx reqs, 4 gen reqs",
            ],
            2,
        ),
        (["[pl][profile]run_training_batch", "[pl][profile]run_training_batch"], 2),
        (["execute_diffusion_1_256x256"], 0),
    ],
)
def test_engines_and_trainers_mark_steps_in_their_own_words(names: list[str], count: int) -> None:
    trace = TinyTrace()
    for index, name in enumerate(names):
        trace.shift = index * 100
        trace.region(0, 90, name)
        trace.operation(10, 80, "gemm", 5)
    assert [step.name for step in find_steps(trace.build())] == names[:count]


@pytest.mark.parametrize(
    "name", ["layer_3", "TransformerBlock 2", "nccl:all_reduce", "## Call CompiledFxGraph ##"]
)
def test_parts_of_a_step_are_no_marks(name: str) -> None:
    assert mark_of(name) is None


@pytest.mark.parametrize(("apart", "count"), [(True, 4), (False, 0)])
def test_marked_requests_that_overlap_on_several_threads_are_no_steps(apart: bool, count: int) -> None:
    trace = TinyTrace()
    for index in range(4):
        trace.shift = index * (100 if apart else 10)
        thread = 100 if apart else 300 + index
        trace.region(0, 90, f"request_{index}", thread=thread)
        trace.operation(10, 18, "gemm", 5, launch_us=1, thread=thread)
    assert len([step for step in find_steps(trace.build()) if step.found_by == "region"]) == count


def test_ranges_of_a_library_that_take_turns_are_no_cycles() -> None:
    program = Program()
    for _ in range(5):
        program.run("embedding")
        for _ in range(4):
            for name in ("cub::DeviceReduce::Sum", "cub::DeviceSelect::Flagged"):
                program.trace.region(program.now, program.now + 11, name)
                program.run(name)
        program.run(OPTIMIZER)
    assert len(find_steps(program.trace.build())) == 5


# What a recording's marks say, or what its repetition alone must give where nothing tells the marked steps from
# their equal parts: 40 tokens of five requests, 48 updates. None where it holds nothing that marks a step.
EQUAL_PARTS = {"nsys/decode_graph": 40, "real/rl.fixed": 48}
NOTHING_MARKS = {
    "torch/decode_graph",
    "torch/elementwise_chain",
    "real/eval_on_zero",  # training and an evaluation on one rank alternate
    "real/evaluate.fixed",
    "real/power",
    "real/server",
}
WARM_UP_APART = {
    "torch/warmup_included": 3
}  # its first step searches for algorithms and so has other kernels


def _recordings() -> list[str]:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    paths = [path for part in ("torch", "ddp", "nsys", "real") for path in sorted((folder / part).glob("*"))]
    wanted = [path for path in paths if path.name.endswith((".pt.trace.json.gz", ".sqlite"))]
    return [
        f"{path.parent.name}/{path.name}"
        for path in wanted
        if ".rank" not in path.name or ".rank0." in path.name
    ]


EVERY_DAY = 24  # of so many recordings, one, beside those of which something else is expected


def _program(file: str) -> str:
    return file.split(".pt.")[0].removesuffix(".sqlite").removesuffix(".rank0")


def _is_for_every_day(number: int, file: str) -> bool:
    return number % EVERY_DAY == 0 or _program(file) in {*EQUAL_PARTS, *NOTHING_MARKS, *WARM_UP_APART}


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(each, marks=() if _is_for_every_day(number, each) else pytest.mark.thorough)
        for number, each in enumerate(_recordings() or [""])
    ],
)
def test_the_marks_of_a_recording_are_found_again_without_them(file: str, shared_data: Path) -> None:
    trace = opened(shared_data / file)
    name = _program(file)
    found = [count for count in unmarked(trace) if count]
    if name in NOTHING_MARKS and not file.endswith(".sqlite"):
        assert not found
        return
    ranks = {step.rank for step in find_steps(trace)}
    marked = len(find_steps(trace)) // len(ranks)
    expected = EQUAL_PARTS.get(name, WARM_UP_APART.get(name, marked))
    before = 1 if expected == marked else 0  # a step that was launched before the first mark may be complete
    assert found
    assert all(expected <= count <= expected + before for count in found)


@pytest.mark.parametrize(
    ("name", "count"),
    one_of(
        5, [("evaluate", 5), ("lm", 5), ("masks", 5), ("rl", 5), ("segmentation", 5), ("small_batch", 20)]
    ),
)
def test_nsight_systems_recordings_without_marks_have_the_steps_that_were_run(
    name: str, count: int, shared_data: Path
) -> None:
    trace = opened(shared_data / "real" / f"{name}.sqlite")
    assert len(find_steps(trace)) == count


@pytest.mark.parametrize(
    ("pattern", "counts"),
    one_of(
        4,
        [
            ("nsys/*cloverleaf*", {10}),  # clover_leaf.out: ten time steps
            ("nsys/*saxpy*", {5}),
            ("nsys/*Mordred*", {3}),
            ("nsys/*mfu_2gpu*", {0}),  # layers of a diffusion model, each with a small copy to the GPU
            ("nsys/*h100_2gpu_1s*", {0}),
            ("chrome/*mtia_inference*", {0}),
            ("chrome/*vllm*graph_execution*", {0}),
            ("chrome/*sglang*", {0}),
            ("chrome/*b200*", {0}),
            ("chrome/*timesformer*", {0}),
            ("chrome/*mi210*", {0}),
            ("chrome/*xdit*", {0}),
            ("rocm/matmul_result.rpd", {0}),
        ],
    ),
)
def test_what_repeats_in_other_people_s_recordings_is_a_step_or_nothing(
    pattern: str, counts: set[int], shared_data: Path
) -> None:
    for path in sorted((shared_data / "public").glob(pattern)):
        assert set(unmarked(opened(path))) == counts, path.name


@pytest.mark.parametrize(
    ("rounds", "extra", "steps"), [(5, 900.0, 5), (5, 5.0, 60), (3, 900.0, 36)], ids=["waits", "short", "few"]
)
def test_what_comes_once_after_each_run_of_an_inner_loop_ends_a_step(
    rounds: int, extra: float, steps: int
) -> None:
    program = Program()
    for _ in range(rounds):
        for _ in range(12):
            program.run("push", "move", "look")
            program.read_back()
        program.now += extra
    assert program.counted() == [steps]


@pytest.mark.parametrize(("last", "rounds"), [(182, 5), (240, 0)], ids=["another network", "a log"])
def test_updates_of_two_networks_in_turns_are_one_step(last: int, rounds: int) -> None:
    counts = np.array(([237] * 4 + [235, last]) * 4 + [237] * 5)
    begins = np.cumsum(counts) - counts
    assert len(rounds_of(begins, counts, begins * 30_000, (begins + 230) * 30_000, trains=True)) == rounds


@pytest.mark.parametrize(("times", "rounds"), [(1.45, 0), (1.5, 6)])
def test_what_comes_now_and_then_begins_a_round_where_its_cycle_takes_half_as_long_again(
    times: float, rounds: int
) -> None:
    odd = np.arange(21) % 4 == 3
    counts, lasted = np.where(odd, 30, 10), np.where(odd, int(1000 * times), 1000)
    begins, starts = np.cumsum(counts) - counts, np.cumsum(lasted) - lasted
    assert len(rounds_of(begins, counts, starts, starts + lasted - 10, trains=False)) == rounds
