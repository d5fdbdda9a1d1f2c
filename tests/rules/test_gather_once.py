"""Parameters of a sharded model that each micro-batch of an update gathers again."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, make_plan
from tests.opened import planned
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import promised

PLACES = 3
FUNCTION = "autograd::engine::evaluate_function: AddmmBackward0"


@dataclass(frozen=True)
class Sharded:
    """Two ranks that gather, compute and reduce three times in a step."""

    passes: int = PLACES
    forward: str = "FullyShardedDataParallel.forward"
    nested: bool = False
    gathers: int = PLACES  # of the first kind
    reduces: int = PLACES
    reduced: str = "reducescatter"
    gathered: str = "allgather"
    filled: float = 0.0  # part of the GPU's memory

    @property
    def length_us(self) -> float:
        return 80 + PLACES * 400 + self.gathers * 300 + self.reduces * 60

    def body(self, trace: TinyTrace, rank: int) -> None:
        at = 20.0
        for place in range(PLACES):
            launch = 10 + place * 100
            if place < self.passes:
                trace.region(launch - 2, launch + 60, self.forward)
            if self.nested:
                trace.region(launch, launch + 20, self.forward)
                trace.region(launch + 30, launch + 50, self.forward)
            if place < self.gathers:
                trace.collective(at, at + 300, launch + 5, device=rank, stream=7, collective=self.gathered)
                at += 300
            trace.operation(at, at + 400, "void gemm", launch + 25, device=rank)
            at += 400
            if place < self.reduces:
                trace.collective(
                    at, at + 60, launch + 40, device=rank, stream=7, size=9_000_000, collective=self.reduced
                )
                at += 60
        trace.region(400, 430, "Optimizer.step#AdamW.step")
        trace.operation(at, at + 20, "void update", 405, device=rank)
        trace.call(440, at + 25, "cudaDeviceSynchronize")

    def plan(self) -> Plan:
        trace = TinyTrace()
        for rank in range(2):
            trace.rank = rank
            steps(6, self.length_us, lambda made, _, rank=rank: self.body(made, rank), into=trace)
        if self.filled:
            trace.counter("GPU 0 allocated memory", "B", [(at, self.filled * 80e9) for at in (1.0, 3_000.0)])
        return make_plan(Analysis(trace.build()))


@pytest.mark.parametrize(
    ("sharded", "found"),
    [
        (Sharded(), True),
        (Sharded(forward="FSDP::root_pre_forward"), True),
        (Sharded(nested=True), True),
        (Sharded(passes=1), False),
        (Sharded(passes=2), False),
        (Sharded(forward="Model.forward"), False),
        (Sharded(gathers=1), False),
        (Sharded(reduces=1), False),
        (Sharded(reduces=0), False),
        (Sharded(gathered="allreduce"), False),
        (Sharded(reduced="allreduce"), False),
        (Sharded(filled=0.69), True),
        (Sharded(filled=0.71), False),
    ],
    ids=[
        "three passes",
        "the newer kind of sharding",
        "units inside units",
        "one pass for each update",
        "no multiple of the passes",
        "no sharded model",
        "gathered once already",
        "reduced once",
        "nothing is reduced",
        "nothing is gathered",
        "sums of gradients",
        "room in memory",
        "memory is filled",
    ],
)
def test_what_each_micro_batch_gathers_again_is_gathered_once(sharded: Sharded, found: bool) -> None:
    assert ("gather-once" in promised(sharded.plan())) is found


def test_the_first_gathering_and_the_last_reduction_stay() -> None:
    """Of three times 300 and 60 us in steps of 2.36 ms two go: 2.36 / 1.64 is 1.44, and 1.34 with all reductions."""
    (promise,) = [each for each in Sharded().plan().promises if each.proposal.fix == "gather-once"]
    title = "Gather parameters and reduce gradients once for 3 micro-batches instead of for each"
    assert promise.proposal.title == title
    assert promise.expected == pytest.approx(1.44, abs=0.06)
    assert promise.proposal.low is not None
    assert 1.0 < promise.low < 1.34


def slow_cpu(
    gathering: str = "FSDP::all_gather (b.0)", reducing: str = "FSDP::post_backward_reduce"
) -> float:
    """Two micro-batches of a model whose CPU needs 200 us to start each collective, and 100 us for each product."""

    def body(trace: TinyTrace, rank: int) -> None:
        at = 10.0
        for _ in range(2):
            trace.region(at, at + 300, "FSDP::root_pre_forward")
            for backward in (False, True):
                if backward:
                    trace.op(at, at + 210, FUNCTION)
                trace.region(at + 2, at + 200, gathering)
                trace.collective(at + 195, at + 205, at + 190, device=rank, stream=7, collective="allgather")
                at += 210
                trace.operation(at + 95, at + 100, "void gemm", at + 90, device=rank)
                at += 110
            trace.region(at + 2, at + 200, reducing)
            for begin, operator in ((at + 20, "aten::add_"), (at + 80, "fsdp::chunk_cat")):
                trace.op(begin, begin + 50, operator)
                trace.operation(begin + 45, begin + 48, "void elementwise", begin + 40, device=rank)
            trace.collective(
                at + 195,
                at + 205,
                at + 190,
                device=rank,
                stream=7,
                size=9_000_000,
                collective="reducescatter",
            )
            at += 210
        trace.region(at, at + 40, "Optimizer.step#AdamW.step")
        trace.operation(at + 30, at + 35, "void update", at + 20, device=rank)
        trace.call(at + 45, at + 50, "cudaDeviceSynchronize")

    made = TinyTrace()
    for rank in range(2):
        made.rank = rank
        steps(6, 1_800, lambda trace, _, rank=rank: body(trace, rank), into=made)
    plan = make_plan(Analysis(made.build()), reaches={})
    assert plan.crashed == ()
    return next((each.expected for each in plan.promises if each.proposal.fix == "gather-once"), 1.0)


def test_what_the_cpu_needs_to_gather_and_to_reduce_goes_too() -> None:
    """Of four gatherings the first stays, of two reductions the last, and adding up in the other: about 600 us go."""
    slow = slow_cpu()
    assert 1.5 < slow < 1.8
    assert slow > slow_cpu(gathering="Model.gather") + 0.2
    assert slow > slow_cpu(reducing="Model.reduce") + 0.05


@pytest.mark.thorough  # of real size
def test_a_sound_sharded_model_gathers_twice_in_each_step_and_is_not_told_to_do_it_once(
    shared_data: Path,
) -> None:
    ranks = sorted((shared_data / "ddp").glob("fsdp_ok.rank*.gz"))
    plan = planned(*ranks)
    assert plan.reason == ""
    assert "gather-once" not in {each.proposal.fix for each in plan.promises}
