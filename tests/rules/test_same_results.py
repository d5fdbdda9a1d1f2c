"""Results that are the same as before: a frozen network's, a gradient taken twice; and gradients of frozen weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from parsers.model import Attribute
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.unneeded_gradients import unneeded_gradients
from rules.fixes.backward import autograd_functions
from rules.fixes.catalog.unchanged import EvaluateOnce, KeepResult
from rules.fixes.catalog.unneeded_gradients import SkipUnusedGradients
from rules.fixes.forms.others_gradients import runs_for_nothing
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import AUTOGRAD, MAIN, TinyTrace
from tests.rules.test_fixes import plan_of_body
from tests.rules.test_written_forms import PRODUCT, Called, Program

FUNCTION = "autograd::engine::evaluate_function: "
PICTURE, WEIGHTS, LAYERS, LENGTH = [512, 1024], [1024, 1024], 4, 1_000.0


@dataclass
class Queue:
    """Until when the GPU is busy, in all steps."""

    end: float = 0.0

    def launch(self, trace: TinyTrace, at: float, took: float, thread: int) -> None:
        begin = max(self.end, trace.shift + at + 8)
        trace.operation(begin - trace.shift, begin + took - trace.shift, PRODUCT, at + 2, thread=thread)
        self.end = begin + took


@dataclass(frozen=True)
class Picture:
    """Steps that change a picture by what a network says of it, after it was asked about another one."""

    asks: bool = True  # about the other one
    begins: str = ""  # with this operator, with shapes of the picture
    updates: tuple[int, ...] = (512, 1024)  # the shape of what the optimizer updates
    gradients: bool = True  # of the weights
    stores: str = "aten::detach"  # what gathering the picture's gradient calls
    weights_us: float = 60.0
    asked_us: float = 50.0
    asked: Sequence[int] = WEIGHTS  # the weights of the network that is asked
    takes: str = ""  # by this operator, once it was asked
    averages: str = ""  # behind the update, by this operator, a tensor with the shape of the weights
    wanted: int = 0  # so many layers also run on what is wanted, with gradients for their weights
    wanted_us: float = 0.0  # what the first of these takes for a gradient of its input, if it computes one
    stacks: bool = False  # gradients of inputs are put together, as those of what was taken apart
    leading: int = 0  # functions without a kernel before those of either run
    marked_late: float = 0.0  # steps are marked so much later than they begin
    closure: bool = False  # the optimizer asks for all of it

    def plan(self) -> Plan:
        trace, queue = TinyTrace(), Queue()
        for number in range(6):
            length = LENGTH * (1 + (self.wanted > 0))
            trace.shift = length * number
            trace.step(self.marked_late, length + self.marked_late, f"ProfilerStep#{number}")
            self._step(trace, number, queue)
        made = make_plan(Analysis(trace.build()), reaches={})
        assert made.crashed == ()
        return made

    def promise(self, fix: str) -> Promise | None:
        return next((each for each in self.plan().promises if each.proposal.fix == fix), None)

    def _step(self, trace: TinyTrace, index: int, queue: Queue) -> None:
        at, number = 10.0, 1_000 * index
        if self.begins:
            at = self._operator(trace, queue, at, self.begins, [PICTURE, PICTURE], 10.0)
        if self.averages:
            at = self._operator(trace, queue, at, self.averages, [[WEIGHTS] * 2, [WEIGHTS] * 2], 10.0)
        for _ in range(LAYERS * self.asks):
            at = self._operator(trace, queue, at, "aten::linear", [PICTURE, self.asked], self.asked_us)
        if self.takes:
            at = self._operator(trace, queue, at, self.takes, [PICTURE, PICTURE], 10.0)
        for layer in range(LAYERS):
            at = self._operator(trace, queue, at, "aten::linear", [PICTURE, WEIGHTS], 50.0, number + layer)
        for layer in range(self.wanted):
            shapes, late = [PICTURE, WEIGHTS], number + 100 + layer
            at = self._operator(trace, queue, at, "aten::linear", shapes, 50.0, late)
        at = self._lead(trace, at, number + 99 + self.wanted) if self.wanted else at
        for layer in reversed(range(self.wanted)):
            function = trace.op(at, at + 45, f"{FUNCTION}AddmmBackward0", AUTOGRAD)
            trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number + 100 + layer)
            if layer or self.wanted_us:
                shapes = [PICTURE, WEIGHTS]
                self._operator(trace, queue, at + 2, "aten::mm", shapes, 60.0, thread=AUTOGRAD)
            shapes = [[1024, 512], PICTURE]
            self._operator(trace, queue, at + 22, "aten::mm", shapes, self.weights_us, thread=AUTOGRAD)
            at += 48
        at = self._lead(trace, at, number + LAYERS - 1)
        for layer in reversed(range(LAYERS)):
            function = trace.op(at, at + 45, f"{FUNCTION}AddmmBackward0", AUTOGRAD)
            trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number + layer)
            name, inputs = (
                ("aten::cat", [[PICTURE] * 2, []]) if self.stacks else ("aten::mm", [PICTURE, WEIGHTS])
            )
            self._operator(trace, queue, at + 2, name, inputs, 60.0, thread=AUTOGRAD)
            if self.gradients:
                shapes = [[1024, 512], PICTURE]
                self._operator(trace, queue, at + 22, "aten::mm", shapes, self.weights_us, thread=AUTOGRAD)
                self._gather(trace, at + 46, WEIGHTS, "aten::add_")
            at += 80
        self._gather(trace, at, PICTURE, self.stores)
        trace.region(5 if self.closure else at + 40, at + 70, "Optimizer.step#Adam.step")
        self._operator(trace, queue, at + 42, "aten::_fused_adam_", [[list(self.updates)]], 10.0)

    def _lead(self, trace: TinyTrace, at: float, number: int) -> float:
        for _ in range(self.leading):
            function = trace.op(at, at + 4, f"{FUNCTION}ReluBackward0", AUTOGRAD)
            trace.builder.attribute(Attribute.SEQUENCE, np.array([function]), number)
            at += 5
        return at

    def _gather(self, trace: TinyTrace, at: float, shape: list[int], calls: str) -> None:
        trace.op(at, at + 30, f"{FUNCTION}torch::autograd::AccumulateGrad", AUTOGRAD)
        self._says(trace, trace.op(at + 1, at + 28, "torch::autograd::AccumulateGrad", AUTOGRAD), [shape])
        trace.op(at + 3, at + 20, calls, AUTOGRAD)

    def _operator(
        self,
        trace: TinyTrace,
        queue: Queue,
        at: float,
        name: str,
        shapes: Sequence[object],
        took: float,
        number: int = -1,
        thread: int = MAIN,
    ) -> float:
        event = trace.op(at, at + 18, name, thread)
        self._says(trace, event, shapes)
        if number >= 0:
            trace.builder.attribute(Attribute.SEQUENCE, np.array([event]), number)
        queue.launch(trace, at, took, thread)
        return at + 20

    def _says(self, trace: TinyTrace, event: int, shapes: object) -> None:
        dims = trace.builder.string(json.dumps(shapes))
        trace.builder.attribute(Attribute.INPUT_DIMS, np.array([event]), dims)


@pytest.mark.parametrize("late", [0.0, 300.0], ids=["marked in time", "marked amid the passes"])
def test_gradients_of_weights_that_lead_to_a_picture(late: float) -> None:
    promise = Picture(asks=False, marked_late=late).promise("skip-unused-gradients")
    assert promise is not None
    assert "for 4 parameters that no optimizer updates" in promise.proposal.title
    assert 1.04 < promise.expected < 1.6


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (Picture(asks=False), True),
        (Picture(asks=False, stacks=True), True),
        (Picture(asks=False, gradients=False), False),
        (Picture(asks=False, stores="aten::add_"), False),
        (Picture(asks=False, weights_us=6.3), True),
        (Picture(asks=False, weights_us=5.7), False),
    ],
    ids=[
        "added up",
        "puts others together",
        "none",
        "all add up, as over several batches",
        "a twentieth",
        "less",
    ],
)
def test_gradients_beside_what_is_trained(program: Picture, found: bool) -> None:
    replay = program.plan().replay
    told = [each.title for each in SkipUnusedGradients().proposals(replay.analysis, replay)]
    assert bool(told) is found
    assert unneeded_gradients(replay.analysis).parameters == 0


@pytest.mark.parametrize(
    ("program", "functions"),
    [
        (Picture(asks=False, wanted=4), 4),
        (Picture(asks=False, wanted=3), 0),
        (Picture(asks=False, wanted=4, wanted_us=60.0), 0),
        (Picture(asks=False, wanted=4, leading=8), 12),
        (Picture(asks=False, wanted=4, leading=9), 0),
        (Picture(asks=False), 0),
    ],
    ids=[
        "on what is wanted",
        "alike by chance",
        "its input gets one",
        "behind others",
        "behind many",
        "one run",
    ],
)
def test_runs_through_a_frozen_network_that_lead_to_no_gradient(program: Picture, functions: int) -> None:
    replay = program.plan().replay
    found = runs_for_nothing(replay.analysis, unneeded_gradients(replay.analysis).beside)
    (made,) = SkipUnusedGradients().proposals(replay.analysis, replay)
    launched = np.isin(autograd_functions(replay.analysis)[replay.device.launch], found)
    assert len(found) == functions * 6
    assert not replay.overlay([made.expected]).present[launched].any()


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (Picture(), True),
        (Picture(asks=False), False),
        (Picture(closure=True), False),
        (Picture(updates=(1024, 1024)), True),
        (Picture(averages="aten::_foreach_lerp_"), False),
        (Picture(averages="aten::_foreach_zero_"), True),
        (Picture(begins="aten::mul"), True),
        (Picture(begins="aten::copy_"), True),
        (Picture(begins="aten::rand_like"), False),
        (Picture(begins="aten::dropout"), False),
        (Picture(begins="aten::relu", asks=False), False),
        (Picture(asked_us=9.3), True),
        (Picture(asked_us=8.8), False),
    ],
    ids=[
        "another picture",
        "none",
        "a closure of the optimizer",
        "a copy of what is trained",
        "a moving average of what is trained",
        "gradients are cleared",
        "something before",
        "copied before",
        "noise before",
        "dropout before",
        "no layer",
        "a twentieth",
        "less",
    ],
)
def test_frozen_networks_that_are_asked_again(program: Picture, found: bool) -> None:
    replay = program.plan().replay
    assert bool(list(KeepResult().proposals(replay.analysis, replay))) is found


@pytest.mark.parametrize(
    ("program", "same"),
    [
        (Picture(), True),
        (Picture(begins="aten::_foreach_zero_"), True),
        (Picture(takes="aten::relu"), True),
        (Picture(takes="aten::slice"), False),
        (Picture(takes="aten::_to_copy"), False),
        (Picture(begins="aten::copy_"), False),
        (Picture(begins="aten::mul"), False),
        (Picture(updates=(1024, 1024)), False),
        (Picture(asked=[2048, 1024]), False),
    ],
    ids=[
        "another picture",
        "gradients are cleared",
        "computed with",
        "a part of it",
        "sent behind it",
        "sent before it",
        "something before",
        "a copy of what is trained",
        "another network",
    ],
)
def test_a_frozen_network_has_one_estimate_where_nothing_new_is_given(program: Picture, same: bool) -> None:
    promise = program.promise("keep-result")
    assert promise is not None
    assert promise.proposal.redesign is not same
    assert promise.low == pytest.approx(1.0)
    assert 1.2 < promise.expected < 1.6


STATE, DATA = [128, 64], [1000, 128]
MOVED = [Called("aten::mul", (STATE, []), 1), Called("aten::add", (STATE, STATE, []), 1)]
GRADIENT = [
    Called("aten::matmul", (DATA, STATE), 60, PRODUCT),
    Called("aten::sigmoid", ([1000, 64],), 20),
    Called("aten::sub", (STATE, STATE, []), 2),
]
KICK = [*GRADIENT, *MOVED]
HALF_STEPS = [*KICK, *MOVED, *KICK] * 4
IN_PLACE = [Called("aten::add_", (STATE, STATE, []), 1)]


def is_twice(called: Sequence[Called]) -> bool:
    program = Program(called)
    replay = plan_of_body(program.body, length=program.length_us).replay
    return bool(list(EvaluateOnce().proposals(replay.analysis, replay)))


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (HALF_STEPS, True),
        ([*GRADIENT, *IN_PLACE, *IN_PLACE, *GRADIENT, *IN_PLACE] * 4, True),
        ([*KICK, *MOVED] * 8, False),
        (KICK * 8, False),
        ([*KICK, *GRADIENT, Called("aten::add", (STATE, STATE, []), 1), *MOVED] * 4, False),
        ([*KICK, *KICK, Called("aten::randn_like", (STATE,), 1), *MOVED] * 4, False),
        ([*KICK, *KICK, *KICK, *MOVED] * 4, False),
        ([*KICK, Called("aten::relu", (STATE,), 1), *KICK] * 4, False),
        ([*HALF_STEPS, Called("SigmoidBackward0", (STATE,), 30, number=7, backward=True)], True),
        ([*HALF_STEPS, Called("Optimizer.step#SGD.step", (STATE,), 3)], False),
    ],
    ids=[
        "kick, drift, kick",
        "in place",
        "moved after each",
        "a descent",
        "two slopes that are added",
        "noise is added",
        "moved after every third",
        "no move",
        "gradients by autograd",
        "a training",
    ],
)
def test_gradients_taken_twice(called: Sequence[Called], found: bool) -> None:
    assert is_twice(called) is found


@pytest.mark.parametrize(("steps_", "found"), [(2, False), (3, True)])
def test_two_pairs_in_a_row_at_least(steps_: int, found: bool) -> None:
    """Of what a step has, the first evaluation opens no pair, as nothing is known of what comes before it."""
    other = [replace(each, name="aten::tanh") if "sig" in each.name else each for each in KICK]
    assert is_twice([*other, *([*KICK, *MOVED, *KICK] * steps_), *other]) is found


def test_every_second_one_goes_at_most_and_none_at_least() -> None:
    program = Program(HALF_STEPS)
    plan = plan_of_body(program.body, length=program.length_us)
    (made,) = EvaluateOnce().proposals(plan.replay.analysis, plan.replay)
    assert made.low is not None
    assert plan.replay.gain([made.low]) == pytest.approx(1.0)
    whole = 400 + 8 * 84 + 4 * 2
    assert plan.replay.gain([made.expected]) == pytest.approx(whole / (whole - 3 * 84), rel=0.05)


_VECTORS = "void at::native::vectorized_elementwise_kernel<4, at::native::"
_KERNELS = {
    "aten::mul": f"{_VECTORS}BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>",
    "aten::add": f"{_VECTORS}CUDAFunctor_add<float>, std::array<char *, 3>>",
    "aten::add_": f"{_VECTORS}CUDAFunctor_add<float>, std::array<char *, 3>>",
    "aten::matmul": PRODUCT,
    "aten::_softmax_backward_data": "cunn_SoftMaxBackward",
}


def is_twice_by_kernels(called: Sequence[Called]) -> bool:
    """The same where kernels alone were recorded, with their launches."""

    def body(trace: TinyTrace, _: int) -> None:
        at, on_gpu = 10.0, 30.0
        for each in [Called("aten::mm", ([8, 8],), 200, PRODUCT), *called]:
            kernel = _KERNELS.get(each.name, f"void {each.name}_kernel<4>")
            on_gpu = max(on_gpu, at + 6) + each.us
            size = each.shapes[0][0]
            trace.operation(on_gpu - each.us, on_gpu, kernel, at, grid=size, block=128)
            at += 12
        trace.call(at, max(on_gpu, at) + 5, "cudaDeviceSynchronize")

    program = Program(called)
    replay = plan_of_body(body, length=program.length_us).replay
    return bool(list(EvaluateOnce().proposals(replay.analysis, replay)))


@pytest.mark.parametrize(
    ("called", "found"),
    [
        (HALF_STEPS, True),
        ([*KICK, *MOVED] * 8, False),
        (KICK * 8, False),
        ([*KICK, *KICK, Called("aten::randn_like", (STATE,), 1), *MOVED] * 4, False),
        ([*KICK, *MOVED, *[replace(each, shapes=(DATA,)) for each in KICK]] * 4, False),
        ([*HALF_STEPS, Called("aten::_softmax_backward_data", (STATE,), 30)], False),
    ],
    ids=["kick, drift, kick", "moved after each", "a descent", "noise is added", "other sizes", "a training"],
)
def test_gradients_taken_twice_are_told_by_kernels_alone(called: Sequence[Called], found: bool) -> None:
    assert is_twice_by_kernels(called) is found
