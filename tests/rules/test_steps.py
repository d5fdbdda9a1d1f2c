"""Steps are found from annotations, from regions, or from what repeats; warm-up is told from steady state."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.steps.steps import find_steps
from rules.findings.base import Category
from tests.rules.builder import TinyTrace, ns, steps


def train(trace: TinyTrace, index: int) -> None:
    trace.operation(10, 400, "gemm", 0)
    trace.operation(400, 800, "void multi_tensor_apply_kernel<FusedOptimizer>", 20)


def found(trace: Trace) -> list[tuple[str, float, float]]:
    return [(step.name, step.start / 1000, step.end / 1000) for step in find_steps(trace)]


def test_profiler_steps_are_taken_as_they_are() -> None:
    names = [name for name, _, _ in found(steps(4, 1000, train).build())]
    assert names == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_a_step_reaches_to_the_start_of_the_next_one() -> None:
    trace = TinyTrace()
    for index in range(3):
        trace.shift = index * 1000
        trace.step(0, 300, f"ProfilerStep#{index}")
        train(trace, index)
    assert [(start, end) for _, start, end in found(trace.build())] == [(0, 1000), (1000, 2000), (2000, 2800)]


@pytest.mark.parametrize(("numbers", "count"), [((0, 0), 0), ((0, 1), 2)])
def test_the_same_step_on_two_devices_is_one(numbers: tuple[int, int], count: int) -> None:
    trace = TinyTrace()
    for device, number in enumerate(numbers):
        trace.shift = device * 1000
        trace.step(0, 300, f"step {number}", thread=device)
        trace.operation(10, 290, "gemm", 0)
    assert len(found(trace.build())) == count


def test_a_host_that_runs_ahead_does_not_cut_off_the_gpu_s_work() -> None:
    trace = TinyTrace()
    for index in range(3):
        trace.step(index * 100, index * 100 + 100, f"ProfilerStep#{index}")
        trace.operation(10 + index * 1000, 1010 + index * 1000, "gemm", index * 100)
    assert [(start, end) for _, start, end in found(trace.build())] == [(0, 1010), (1010, 2010), (2010, 3010)]


def test_work_launched_before_the_recording_is_not_part_of_the_first_step() -> None:
    trace = TinyTrace()
    trace.operation(0, 500, "gemm")
    for index in range(3):
        trace.step(index * 100 + 10, index * 100 + 110, f"ProfilerStep#{index}")
        trace.operation(500 + index * 1000, 1500 + index * 1000, "gemm", index * 100 + 20)
    assert found(trace.build())[0][1] == 500


@pytest.mark.parametrize(
    "name", ["step_{}", "iteration {}", "request_{}", "decode_{}", "Train Batch #{}", "micro_step[{}]"]
)
def test_numbered_regions_are_steps(name: str) -> None:
    trace = TinyTrace()
    for index in range(4):
        trace.shift = index * 1000
        trace.region(0, 990, name.format(index))
        train(trace, index)
    every = find_steps(trace.build())
    assert [step.name for step in every] == [name.format(index) for index in range(4)]
    assert {step.found_by for step in every} == {"region"}


def test_numbered_regions_that_were_pushed_and_never_popped_end_where_the_next_starts() -> None:
    trace = TinyTrace()
    for index in range(4):
        trace.region(index * 1000, 9000, f"iteration{index + 10}")
    for index in range(4):
        trace.shift = index * 1000
        train(trace, index)
    steps = find_steps(trace.build())
    assert [step.name for step in steps] == [f"iteration{index + 10}" for index in range(4)]
    assert {round(step.duration / 1e6) for step in steps} == {1}


@pytest.mark.parametrize("name", ["train_step", "token", "inference"])
def test_regions_of_one_name_with_a_word_for_a_step_are_steps(name: str) -> None:
    trace = TinyTrace()
    for index in range(4):
        trace.shift = index * 1000
        trace.region(0, 990, name)
        train(trace, index)
    assert len(find_steps(trace.build())) == 4


def test_layers_are_no_steps() -> None:
    trace = TinyTrace()
    for step in range(3):
        trace.shift = step * 1000
        trace.step(0, 1000, f"ProfilerStep#{step}")
        for layer in range(4):
            trace.region(layer * 200, layer * 200 + 190, f"layer_{layer}")
            trace.operation(10 + layer * 200, 150 + layer * 200, "gemm", layer * 200)
    assert len(find_steps(trace.build())) == 3


def test_regions_that_take_turns_make_cycles() -> None:
    trace = TinyTrace()
    for index in range(5):
        trace.shift = index * 1000
        for place, name in enumerate(("forward", "backward", "optimizer")):
            trace.region(place * 300, place * 300 + 290, name)
            trace.operation(10 + place * 300, 280 + place * 300, name, place * 300)
    every = find_steps(trace.build())
    assert [step.name for step in every] == [f"iteration {number}" for number in range(1, 6)]
    assert {round(step.duration / 1000) for step in every[:-1]} == {1000}


def test_iterations_without_any_annotation_are_found_by_repetition() -> None:
    trace = TinyTrace()
    for index in range(6):
        trace.shift = index * 1000
        train(trace, index)
    every = find_steps(trace.build())
    assert {step.found_by for step in every} == {"repetition"}
    assert len(every) >= 5
    assert {step.duration for step in every[:-1]} == {ns(1000)}


def test_a_single_run_has_no_steps_and_its_window_is_the_gpu_s() -> None:
    trace = TinyTrace()
    for index in range(10):
        trace.operation(10 + index * 100, 60 + index * 100, f"kernel_{'abcdefghij'[index]}", index * 100)
    built = trace.build()
    assert find_steps(built) == ()
    assert Analysis(built).window == (ns(10), ns(960))
    assert Analysis(built).window_text == "first to last GPU operation"


def test_a_window_without_its_beginning_is_not_called_first_to_last_operation() -> None:
    trace = TinyTrace()
    trace.operation(10, 60, "fill")
    trace.call(70, 19_990, "cudaMalloc")
    for index in range(200, 240):
        trace.operation(index * 100, index * 100 + 90, f"kernel_{index}", index * 100 - 5)
    after = Analysis(trace.build())
    assert after.window_text == "GPU operations without the beginning, which is left out"


@pytest.mark.parametrize(("first", "steady"), [(1490, True), (1510, False)])
def test_warm_up_is_more_than_one_and_a_half_times_the_median(first: float, steady: bool) -> None:
    trace = TinyTrace()
    start = 0.0
    for index, length in enumerate([first, 1000, 1000, 1000, 1000]):
        trace.shift = start
        trace.step(0, length, f"ProfilerStep#{index}")
        trace.operation(10, length - 10, "gemm", 5)
        start += length
    assert find_steps(trace.build())[0].steady is steady


@pytest.mark.parametrize(
    "lengths",
    [[5000, 1000, 1000, 5000, 1000, 1000, 1000], [1000, 5000, 1000, 1000]],
    ids=["comes back", "comes behind an ordinary step"],
)
def test_slowness_that_is_the_program_s_is_no_warm_up(lengths: list[float]) -> None:
    trace = TinyTrace()
    start = 0.0
    for index, length in enumerate(lengths):
        trace.shift = start
        trace.step(0, length, f"ProfilerStep#{index}")
        trace.operation(10, length - 10, "gemm", 5)
        start += length
    assert all(step.steady for step in find_steps(trace.build()))


def test_a_step_without_gpu_work_is_not_steady() -> None:
    trace = steps(3, 1000, train)
    trace.step(3000, 3050, "ProfilerStep#4")
    assert [step.steady for step in find_steps(trace.build())] == [True, True, True, False]


def test_each_rank_has_its_own_steps() -> None:
    from parsers.ranks.merge import merge

    traces = [steps(3, 1000, train, into=TinyTrace(rank=rank)).build() for rank in range(3)]
    every = find_steps(merge(traces))
    assert [step.rank for step in every] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert Analysis(merge(traces)).steps_in_window == 3


def test_a_single_profiler_step_gives_way_to_the_steps_inside_it() -> None:
    trace = TinyTrace()
    trace.step(0, 4000, "ProfilerStep#0")
    for index in range(4):
        trace.shift = index * 1000
        trace.region(0, 990, f"step_{index}")
        train(trace, index)
    assert [step.name for step in find_steps(trace.build())] == [f"step_{index}" for index in range(4)]


@pytest.mark.parametrize(("worked", "active"), [(46.0, (0, 1)), (44.0, (0,))])
def test_a_device_that_hardly_works_is_not_what_the_run_is_about(
    worked: float, active: tuple[int, ...]
) -> None:
    """Less than a twentieth of what the busiest one works."""

    def body(trace: TinyTrace, index: int) -> None:
        trace.operation(10, 910, "gemm", 0)
        trace.operation(920, 920 + worked, "gemm", 5, device=1, stream=8)

    analysis = Analysis(steps(3, 1000, body).build())
    assert analysis.active_devices == active
    assert analysis.budgets(1).total_idle_ns > 0


def test_of_two_sorts_of_steps_those_that_give_the_gpu_most_work_are_taken() -> None:
    """Training that runs ahead returns sooner than evaluation that reads its results back."""
    trace = TinyTrace()
    for index in range(4):
        trace.region(100 * index, 100 * index + 90, "train_step")
        trace.operation(10 + 1000 * index, 1000 + 1000 * index, "gemm", 100 * index + 5)
    for index in range(4):
        trace.region(4100 + 300 * index, 4390 + 300 * index, "eval_step")
        trace.operation(4110 + 300 * index, 4200 + 300 * index, "gemm", 4102 + 300 * index)
    assert {name for name, _, _ in found(trace.build())} == {"train_step"}


@pytest.mark.parametrize(("outside", "told"), [(1, False), (4, True)])
def test_work_outside_of_the_steps_is_told_when_it_is_more_than_the_host_runs_ahead(
    outside: int, told: bool
) -> None:
    trace = steps(5, 1000, train)
    for index in range(outside):
        trace.operation(6000 + 1000 * index, 6780 + 1000 * index, "gemm", 5990 + 1000 * index)
    text = Analysis(trace.build()).window_text
    assert ("of the GPU's work lies outside of them" in text) is told
    if told:
        assert text.endswith("; 44 % of the GPU's work lies outside of them")


def repeating(ranges: list[str], *, each_cycle: bool) -> Trace:
    """Eight equal cycles, each ended by a copy; ``ranges`` are drawn one a cycle, or all in every cycle."""
    trace = TinyTrace()
    for index in range(8):
        trace.shift = 1000.0 * index
        for number, name in enumerate(ranges):
            if each_cycle or number == index:
                trace.region(10 + 90 * number, 90 + 90 * number, name)
        trace.kernels(0, 4, 100, 120, name="gemm")
        trace.kernels(480, 4, 60, 70, name="softmax")
        trace.copy(800, 820, "HtoD", 790)
    return trace.build()


LAYERS = [f"FSDP::pre_forward (blocks.{number}._checkpoint_wrapped_module)" for number in range(8)]


def test_cycles_that_hold_one_layer_each_are_no_steps() -> None:
    assert found(repeating(LAYERS, each_cycle=False)) == []


def test_cycles_that_hold_every_layer_are_steps() -> None:
    assert len(found(repeating(LAYERS, each_cycle=True))) >= 7
    assert len(found(repeating([], each_cycle=True))) >= 7


def ahead_of_the_gpu(ran: int, *, linked: bool = True, kernels: int = 20, every: int = 50) -> Trace:
    """Six steps launched in 100 us each, which take the GPU 1 ms each; it ran ``ran`` kernels before the end."""
    trace = TinyTrace()
    done = 0
    for index in range(6):
        trace.step(100 * index, 100 * index + 100, f"ProfilerStep#{index + 5}")
        for number in range(kernels):
            launch, at = 100.0 * index + 4 * number, 10 + 1000.0 * index + every * number
            if done < ran:
                trace.operation(at, at + every - 1, "gemm", launch if linked else None, launch_us=1)
                if not linked:
                    trace.call(launch, launch + 1, "cudaLaunchKernel")
            else:
                trace.call(launch, launch + 1, "cudaLaunchKernel")
            done += 1
    return trace.build()


@pytest.mark.parametrize(("ran", "steady"), [(120, 6), (119, 6), (118, 6), (117, 5), (70, 3), (60, 3)])
def test_steps_whose_work_the_recording_cut_off_are_not_steady(ran: int, steady: int) -> None:
    """A step is whole when the GPU ran nine tenths of what it launched."""
    found_steps = find_steps(ahead_of_the_gpu(ran))
    assert [step.steady for step in found_steps] == [True] * steady + [False] * (len(found_steps) - steady)


def test_a_recording_cut_off_in_the_middle_accuses_neither_its_first_step_nor_its_last() -> None:
    said = {each.category for each in diagnose(ahead_of_the_gpu(50)).findings}
    assert not said & {Category.WARM_UP, Category.RECORDING_OVERHEAD, Category.VARIABILITY}


def test_without_links_unequal_annotations_are_not_called_unequal_steps() -> None:
    def annotated(linked: bool) -> Trace:
        trace = TinyTrace()
        for index, start in enumerate((0, 1000, 2000, 3000, 4000)):
            end = start + 1000 if index < 4 else 9000
            trace.step(start, end, f"ProfilerStep#{index + 5}")
            trace.operation(start + 10, end - 10, "gemm", start if linked else None)
        return trace.build()

    for linked in (True, False):
        said = [
            each for each in diagnose(annotated(linked)).findings if each.category is Category.VARIABILITY
        ]
        assert bool(said) is linked


@pytest.mark.parametrize(
    ("mark", "at_end"),
    [
        ("Optimizer.step#SGD.step", True),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", False),
    ],
)
def test_where_kernels_do_not_repeat_the_frameworks_marks_tell_the_iterations(
    mark: str, at_end: bool
) -> None:
    trace, start = TinyTrace(), 0
    for index, length in enumerate((9000, 1000, 1300, 1100, 1200)):
        if not at_end:
            trace.op(start, start + 50, mark)
        for number in range(3 + index):
            trace.operation(
                start + 100 + 60 * number, start + 150 + 60 * number, f"gemm_{index}_{number}", start + 90
            )
        if at_end:
            trace.op(start + length - 50, start + length, mark)
        start += length
    told = find_steps(trace.build())
    assert [step.duration // 1000 for step in told if step.steady][:3] == [1000, 1300, 1100]
    assert not told[0].steady


@pytest.mark.parametrize(
    ("parent", "launches", "steps_found"),
    [
        ("masks 0", (0, 18, 2), False),
        ("masks 0", (0, 17, 3), True),
        ("masks", (0, 18, 2), True),
        ("other 0", (0, 18, 2), True),
    ],
    ids=["parts of it", "more than one works", "no number", "another range around them"],
)
def test_numbered_parts_of_a_range_of_which_one_launches_nearly_all_are_no_steps(
    parent: str, launches: tuple[int, ...], steps_found: bool
) -> None:
    trace = TinyTrace()
    trace.region(0, 3000, parent)
    stem = "masks" if parent == "masks" else "masks 0"
    for number, count in enumerate(launches):
        trace.region(1000 * number + 5, 1000 * number + 990, f"{stem} {number}")
        for place in range(count):
            at = 1000 * number + 10 + 40 * place
            trace.operation(at + 10, at + 35, f"void {chr(97 + place)}_kernel", at)
    assert bool(found(trace.build())) is steps_found
