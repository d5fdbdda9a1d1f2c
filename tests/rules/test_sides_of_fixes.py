"""Where fixes begin to apply and how much time they leave: a recording on either side of each limit."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import MISALIGNED, TENSOR, plan_of_body

POINTWISE = "void vectorized_elementwise_kernel<4>"
SOFTMAX = "void softmax_warp_forward<float, float, float, 11, false>"
SOFTMAX_BACKWARD = "void softmax_warp_backward<float, float, float, 11, false, false>"


def promise(plan: Plan, fix: str) -> Promise:
    assert plan.crashed == ()
    return next(each for each in plan.promises if each.proposal.fix == fix)


def is_told(plan: Plan, fix: str) -> bool:
    assert plan.reason == ""
    assert plan.crashed == ()
    return any(each.proposal.fix == fix for each in plan.promises)


def two_threads(
    *, kernels: int = 1, shared: int = 1, second: int = 12, lasts: float = 2.0, stream: int = 8
) -> Plan:
    """Threads that launch a kernel every 80 us each, of so many names; the second one makes fewer launches."""

    def body(trace: TinyTrace, _: int) -> None:
        for thread, launches in enumerate((12, second)):
            for place in range(launches):
                at = 10 + place * 80 + thread * 40
                number = place % kernels
                name = f"void kernel_{number if number < shared else f'{number}_of_{thread}'}"
                on = stream if thread else 7
                trace.operation(at + 6, at + 6 + lasts, name, at, thread=100 + thread, stream=on)

    return plan_of_body(body, length=1000)


@pytest.mark.parametrize(
    ("threads", "together"),
    [
        ({"second": 6}, True),
        ({"second": 5}, False),
        ({"kernels": 5, "shared": 4}, True),
        ({"kernels": 4, "shared": 3}, False),
        ({"lasts": 16.0, "stream": 7}, True),
        ({"lasts": 22.0, "stream": 7}, False),
    ],
    ids=[
        "half as many launches",
        "fewer",
        "four in five kernels",
        "three in four",
        "the GPU could do twice as much",
        "the GPU is the limit",
    ],
)
def test_threads_serve_requests_together(threads: dict[str, int], together: bool) -> None:
    assert is_told(two_threads(**threads), "batch-requests") is together


def test_sixteen_requests_served_together_are_sixteen_times_as_fast() -> None:
    assert promise(two_threads(lasts=0.5), "batch-requests").proposal.redesign
    assert promise(two_threads(lasts=0.5), "batch-requests").expected == pytest.approx(16, rel=0.2)


def collecting(lasts: float, freed: int = 0) -> Plan:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 15, 20, 40)
        trace.region(1_000, 1_000 + lasts, "Python GC")
        for place in range(freed):
            trace.call(1_005 + lasts + place * 25, 1_025 + lasts + place * 25, "cudaFree")
        trace.kernels(1_200 + lasts, 15, 20, 40)

    return plan_of_body(body, length=2_000)


@pytest.mark.parametrize(("lasts", "one"), [(30.0, False), (46.0, True)])
def test_memory_is_given_back_for_collections_that_take_a_fiftieth_of_a_step(lasts: float, one: bool) -> None:
    assert is_told(collecting(lasts, freed=5), "keep-memory") is not one


def test_a_tenth_of_the_collections_may_be_needed() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.kernels(10, 10, 20, 40)
        trace.region(420, 9_420, "Python GC")
        trace.kernels(9_440, 10, 20, 40)

    made = promise(plan_of_body(body, length=10_000), "collect-garbage-seldom")
    assert made.expected == pytest.approx(12, rel=0.1)
    assert 1 / made.low == pytest.approx(1 / 12 + 0.1 * (1 - 1 / 12), rel=0.1)


def test_some_of_the_waits_for_the_lock_may_be_for_results() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.frame(0, 8_950, "train.py(5): step")
        trace.kernels(10, 10, 20, 40)
        trace.frame(420, 8_480, "watch.py(9): watch", 555)
        for begin in range(450, 8_450, 1_000):
            trace.frame(begin, begin + 950, "watch.py(3): spread", 555)
        trace.kernels(8_520, 10, 20, 40)

    made = promise(plan_of_body(body, length=9_000), "run-python-in-processes")
    assert made.expected > 8
    assert made.low == pytest.approx(9_000 / (900 + 0.3 * 8_100), rel=0.1)


def test_a_first_batch_takes_half_as_long_where_the_workers_run_already() -> None:
    def body(trace: TinyTrace, _: int) -> None:
        trace.op(10, 20, "aten::random_")
        trace.op(25, 35, "aten::item")
        trace.region(3_035, 13_035, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
        trace.kernels(13_100, 20, 20, 40)

    made = promise(plan_of_body(body, length=14_000), "keep-workers")
    assert made.expected == pytest.approx(14_000 / (1_000 + 5_000), rel=0.1)


def pointwise_among(share: float) -> Plan:
    """A chain of ten kernels that only move memory for such a part of the GPU's 500 us, and ten products."""

    def body(trace: TinyTrace, _: int) -> None:
        for place in range(20):
            name, part = (POINTWISE, share) if place < 10 else (TENSOR, 1 - share)
            trace.kernels(10 + place * 60, 1, 50 * part, 60, name)

    return plan_of_body(body, length=1_220)


@pytest.mark.parametrize(("share", "found"), [(0.11, True), (0.09, False)])
def test_a_model_is_compiled_for_a_tenth_of_the_time(share: float, found: bool) -> None:
    assert is_told(pointwise_among(share), "compile-model") is found


def chained(share_of_rest: float) -> Plan:
    """Four chains of three kernels that only move memory; the GPU works for all but such a part of the step."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 20.0
        for place in range(4):
            trace.operation(at, at + 235, TENSOR, 5 + place * 24)
            for each in range(3):
                begin = at + 235 + each * 78
                trace.operation(begin, begin + 78, POINTWISE, 11 + place * 24 + each * 6)
            at += 469
        trace.call(110, at + 5, "cudaDeviceSynchronize")

    return plan_of_body(body, length=20 + 4 * 469 / (1 - share_of_rest))


@pytest.mark.parametrize(("idle", "launching"), [(0.02, False), (0.05, True)])
def test_a_gpu_that_works_all_the_time_waits_for_no_launches(idle: float, launching: bool) -> None:
    made = promise(chained(idle), "compile-model")
    assert (Category.LAUNCH_BOUND in made.proposal.categories) is launching


def test_where_the_compiler_breaks_the_model_six_tenths_of_what_fusing_saves_are_left() -> None:
    plan = chained(0.0)
    low = promise(plan, "compile-model").proposal.low
    joined = 936 * 2 / 3  # of three reads and three writes, two of each
    assert low is not None
    assert plan.replay.gain([low]) == pytest.approx(1_896 / (1_896 - 0.6 * joined), rel=0.02)


def many_slow(*, count: int = 6, work: float = 3_000, silent: bool = True, calls: int = 19) -> Plan:
    """Steps of 1 ms, the last but two with work of its own, silent or not."""
    trace = TinyTrace()
    for number in range(count):
        slow = number == count - 2
        length = 1_000 + (work if slow else 0)
        trace.step(0, length, f"ProfilerStep#{number + 1}")
        trace.kernels(10, 19, 20, 25)
        if not slow or silent:
            trace.operation(600, 980, "gemm", 590)
            trace.call(600, 990, "cudaDeviceSynchronize")
        else:
            trace.operation(600, length - 20, "gemm", 590)
            trace.call(600, length - 10, "cudaDeviceSynchronize")
        trace.shift += length
    trace.shift = 0.0
    return make_plan(Analysis(trace.build()), reaches={})


@pytest.mark.parametrize(("count", "found"), [(3, True), (2, False)])
def test_of_three_steps_one_can_be_slow(count: int, found: bool) -> None:
    assert is_told(many_slow(count=count), "spread-slow-steps") is found


def partly_working(own: float) -> Plan:
    """Steps of 1 ms, one of which takes 2 ms: such a part of it the CPU works, and then waits for the GPU."""
    trace = TinyTrace()
    for number in range(6):
        slow = number == 3
        length = 2_000 if slow else 1_000
        trace.step(0, length, f"ProfilerStep#{number + 1}")
        trace.kernels(10, 19, 20, 25)
        begin = 590 + (own * length if slow else 0)
        trace.operation(begin + 10, length - 20, "gemm", begin)
        trace.call(begin + 10, length - 10, "cudaDeviceSynchronize")
        trace.shift += length
    trace.shift = 0.0
    return make_plan(Analysis(trace.build()), reaches={})


@pytest.mark.parametrize(("own", "found"), [(0.34, True), (0.2, False)])
def test_a_slow_step_works_for_three_tenths_of_its_time(own: float, found: bool) -> None:
    assert is_told(partly_working(own), "spread-slow-steps") is found


@pytest.mark.parametrize(("clock", "found"), [(1_900.0, True), (1_935.0, False)])
def test_a_limit_costs_three_hundredths_of_the_time(clock: float, found: bool) -> None:
    def body(trace: TinyTrace, _: int) -> None:
        for place in range(9):
            trace.operation(20 + place * 215, 235 + place * 215, TENSOR, 5 + place * 6)
        trace.call(70, 1985, "cudaDeviceSynchronize")

    trace = steps(6, 2000, body)
    times = [index * 100.0 for index in range(120)]
    trace.counter("GPU 0 SM clock", "MHz", [(at, clock) for at in times])
    trace.counter("GPU 0 maximum SM clock", "MHz", [(at, 1980.0) for at in times])
    trace.counter("GPU 0 software power cap", "", [(at, 1.0) for at in times])
    assert is_told(make_plan(Analysis(trace.build()), reaches={}), "end-throttling") is found


def ranks_that_take_turns(longer: float = 1.5, extra: float = 0.0) -> Plan:
    """Two ranks that compute 1 ms in turn such times as long as the other; the first one always ``extra`` us more."""
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, step: int, rank: int = rank) -> None:
            each = (100 * longer if step % 2 == rank else 100) + (0 if rank else extra / 10)
            for place in range(10):
                made.operation(
                    20 + place * each, 20 + (place + 1) * each, "void gemm", 5 + place * 6, device=rank
                )
            last = 20 + 1_000 * longer + extra
            made.collective(20 + 10 * each, last + 20, 80, device=rank)
            made.call(90, last + 50, "cudaDeviceSynchronize")

        trace.rank = rank
        steps(6, 1_080 + 1_000 * (longer - 1) + extra, body, into=trace)
    return make_plan(Analysis(trace.build()), reaches={})


@pytest.mark.parametrize(
    ("longer", "extra", "found"),
    [(1.5, 0, True), (1.25, 0, True), (1.15, 0, False), (1.5, 110, True), (1.5, 150, False)],
    ids=["by half", "a tenth over the mean", "less", "nearly as long in all", "one rank has more for good"],
)
def test_work_is_unequal_from_step_to_step(longer: float, extra: float, found: bool) -> None:
    assert is_told(ranks_that_take_turns(longer, extra), "equal-lengths") is found


def small_collectives(
    count: int, transfer: float = 5.0, apart: float = 60.0, late: float = 22.0, size: int = 100_000
) -> Plan:
    """Two ranks with so many collectives in a step, each behind a kernel."""
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            for place in range(count):
                at = 10 + place * apart
                made.operation(at + 6, at + 8, "void gemm", at, device=rank)
                made.collective(
                    at + late + 8, at + late + 8 + transfer, at + late, device=rank, stream=7, size=size
                )

        trace.rank = rank
        steps(6, 60 + count * apart, body, into=trace)
    return make_plan(Analysis(trace.build()), reaches={})


@pytest.mark.parametrize(
    ("count", "transfer", "found"), [(30, 5, True), (29, 5, False), (40, 99, True), (40, 101, False)]
)
def test_small_collectives_are_joined(count: int, transfer: float, found: bool) -> None:
    made = small_collectives(count, transfer, 60.0 if transfer < 50 else 160.0)
    assert is_told(made, "fewer-collectives") is found


def test_two_small_collectives_become_one() -> None:
    made = promise(small_collectives(60, 2.0, 100.0, late=90.0), "fewer-collectives")
    assert made.expected == pytest.approx(100 / (100 - 90 / 2), rel=0.1)


def synchronised_norms(layers: int, normalises: float = 20.0) -> Plan:
    """Two ranks with so many layers, each with an operator in the forward and one in the backward pass.

    Of 190 us in each of them, an operator ``normalises`` for so long.
    """
    trace = TinyTrace()
    for rank in range(2):

        def body(made: TinyTrace, _: int, rank: int = rank) -> None:
            made.kernels(10, 10, 5, 20, "void gemm", device=rank)
            for place in range(2 * layers):
                at = 300 + place * 200
                name = "SyncBatchNorm" if place < layers else "SyncBatchNormBackward"
                made.op(at - 60, at + 130, name)
                kept = "aten::batch_norm_elemt" if place < layers else "aten::batch_norm_backward_elemt"
                made.op(at - 55, at - 55 + normalises, kept)
                made.operation(at - 44, at - 40, "void batch_norm_kernel", at - 50, device=rank)
                made.collective(at + 110, at + 115, at + 100, device=rank, stream=7, size=1_000)

        trace.rank = rank
        steps(6, 260 + 400 * layers, body, into=trace)
    return make_plan(Analysis(trace.build()), reaches={})


@pytest.mark.parametrize(("layers", "found"), [(4, True), (3, False)])
def test_four_layers_are_normalised_on_each_gpu(layers: int, found: bool) -> None:
    assert is_told(synchronised_norms(layers), "normalise-on-each-gpu") is found


@pytest.mark.parametrize("normalises", [100.0, 140.0])
def test_normalising_on_each_gpu_takes_the_time_of_what_normalises(normalises: float) -> None:
    """Of 200 us for each call 190 are gone but for that."""
    made = promise(synchronised_norms(20, normalises), "normalise-on-each-gpu")
    assert made.expected == pytest.approx(200 / (10 + normalises), rel=0.2)


def attention(
    *,
    each: float = 140.0,
    rest: float = 0.0,
    product: str = TENSOR,
    between: int = 0,
    launches: float = 6.0,
    wide: float = 100.0,
    scores: tuple[str, str] = (POINTWISE, SOFTMAX),
) -> Plan:
    """Four times two products with two kernels on scores between them, and ``between`` others before a third."""

    def body(trace: TinyTrace, _: int) -> None:
        at, launched = 20.0, 5.0
        for _layer in range(4):
            kernels = [(wide, product), *((each, name) for name in scores), (wide, product)]
            if between:
                others = [(5.0, "void other_kernel")] * 5
                kernels += [*others[:between], (wide, product), *others]
            for lasts, name in kernels:
                at = max(at, launched + 8)
                trace.operation(at, at + lasts, name, launched)
                at += lasts
                launched += launches
        if rest:
            trace.operation(max(at, launched + 8), max(at, launched + 8) + rest, TENSOR, launched)
            at = max(at, launched + 8) + rest
        trace.call(launched + 10, max(at, launched + 10) + 5, "cudaDeviceSynchronize")

    kernels = 4 + (between + 6) * (between > 0)
    gpu = 4 * (2 * wide + 2 * each + ((between + 5) * 5 + wide) * (between > 0)) + rest
    return plan_of_body(body, length=60 + max(gpu, 4 * kernels * launches + rest))


@pytest.mark.parametrize(("rest", "found"), [(140.0, True), (260.0, False)])
def test_scores_are_three_hundredths_of_the_time(rest: float, found: bool) -> None:
    """The GPU takes 6 us for them, and the CPU half of the step to launch them."""
    made = attention(each=0.75, rest=rest, wide=2.0, launches=40.0)
    assert is_told(made, "fuse-attention") is found


@pytest.mark.parametrize(
    ("scores", "found"), [((POINTWISE, SOFTMAX_BACKWARD), True), ((SOFTMAX, SOFTMAX_BACKWARD), False)]
)
def test_a_softmax_and_its_gradient_without_a_product_between_are_a_loss(
    scores: tuple[str, str], found: bool
) -> None:
    assert is_told(attention(scores=scores), "fuse-attention") is found


def test_a_tenth_of_the_launches_between_two_products_is_left() -> None:
    made = promise(attention(each=5.0, wide=1.0, launches=40.0), "fuse-attention")
    assert made.expected == pytest.approx(700 / (700 - 0.9 * 8 * 40), rel=0.03)


def test_a_fused_kernel_pads_products_of_unaligned_data() -> None:
    made = promise(attention(each=50.0, wide=200.0, product=MISALIGNED), "fuse-attention")
    assert made.expected == pytest.approx((400 + 100) / 200, rel=0.05)


@pytest.mark.parametrize(("between", "padded"), [(2, True), (3, False)])
def test_products_up_to_four_places_from_the_scores_are_of_the_attention(between: int, padded: bool) -> None:
    made = promise(attention(each=50.0, product=MISALIGNED, between=between), "fuse-attention")
    others = 5 * (between + 5)
    left = others + 100 + (50 if padded else 100)
    assert made.expected == pytest.approx((300 + 100 + others) / left, rel=0.05)
