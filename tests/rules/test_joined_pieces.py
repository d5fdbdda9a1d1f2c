"""Pieces that pass through a network one by one: which passes take a piece each, and what remains of them together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules.fixes.plan import Plan, Promise
from tests.opened import planned
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

PROGRAMS = Path(__file__).resolve().parent.parent / "fixtures" / "programs"
WEIGHT = [32, 3, 3, 3]
PICTURE, TILE = [3, 1600, 1600], [1, 3, 256, 256]


def network(
    pieces: int = 8,
    *,
    whole: list[int] = PICTURE,
    piece: list[int] = TILE,
    weight: list[int] = WEIGHT,
    calls: int = 20,
    fewer: int = 0,
    grid: int = 8,
    busy_us: float = 10.0,
    work_us: float = 0.0,
    layer: str = "aten::convolution",
    backward: bool = False,
) -> Plan:
    """Steps in which so many pieces are sliced, each before such a layer; the last pass makes ``fewer`` calls."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number in range(pieces):
            trace.shapes(trace.op(at, at + 2, "aten::slice"), [whole, [], []], ["float", "Scalar", "Scalar"])
            at += 4
            for place in range(calls - (fewer if number == pieces - 1 else 0)):
                operator = layer if place == 1 else "aten::relu"
                event = trace.op(at, at + 15, operator)
                if place == 1:
                    trace.shapes(event, [piece, weight, []], ["float", "float", ""])
                name = f"void layer{chr(97 + place % 26)}_kernel"
                trace.operation(at + 6, at + 6 + busy_us, name, at + 1, grid=grid)
                at += 20
            if work_us:
                trace.copy(at + 6, at + 7, "DtoH", at, bytes=64)
                trace.call(at + 6, at + 9, "cudaStreamSynchronize")
                at += 10 + work_us
        if backward:
            trace.op(at - 2, at + 18, "autograd::engine::evaluate_function: ConvolutionBackward0")
            trace.kernels(at, 1, 8, 20, "void dgrad_kernel")
            at += 20

    length = 60 + pieces * (4 + 20 * calls + ((10 + work_us) if work_us else 0))
    return plan_of_body(body, length=length)


def joined(plan: Plan) -> list[Promise]:
    assert plan.reason == ""
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "join-pieces"]


def test_tiles_pass_through_the_network_together() -> None:
    (found,) = joined(network())
    assert found.proposal.title == "Run the model on 8 pieces at once: they pass through it one by one"
    assert found.proposal.problem == "8 pieces pass through the model one by one"
    assert 4 < found.expected < 8
    assert found.low < 4 < found.expected, "four may be all that the memory has room for"


def test_four_pieces_at_once_may_be_all_that_the_memory_has_room_for() -> None:
    plans = [network(count, busy_us=2.0) for count in (12, 20)]
    few, many = (each.replay.usual_ns for each in plans)
    rounds = []
    for plan, whole in zip(plans, (few, many), strict=True):
        (found,) = joined(plan)
        assert found.proposal.low is not None
        rounds.append(whole / plan.replay.gain([found.proposal.low]))
    assert (rounds[1] - rounds[0]) / (many - few) == pytest.approx(2 / 8, abs=0.06)


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ({"whole": [64, 3, 256, 256]}, True),
        ({"whole": [2, 3, 256, 256], "piece": TILE}, True),
        ({"whole": [3, 256, 510]}, False),
        ({"whole": [3, 256, 512]}, True),
        ({"whole": [6, 1600, 1600]}, False),
        ({"whole": [8, 16, 3, 256, 256]}, False),
        ({"whole": [64, 80, 400], "piece": [4, 80, 400], "weight": [32, 80, 5]}, True),
        ({"whole": [64, 80, 400], "piece": [4, 161, 400], "weight": [32, 161, 5]}, False),
        ({"whole": [64, 128], "piece": [4, 128], "weight": [32, 128], "layer": "aten::linear"}, False),
        ({"whole": []}, False),
        ({"whole": [16, 256], "piece": [30_000, 64], "weight": [1, 256], "layer": "aten::embedding"}, True),
        ({"whole": [16, 256], "piece": [30_000, 64], "weight": [8, 256], "layer": "aten::embedding"}, True),
        ({"whole": [15, 256], "piece": [30_000, 64], "weight": [8, 256], "layer": "aten::embedding"}, False),
        ({"whole": [16, 256], "piece": [30_000, 64], "weight": [16, 1], "layer": "aten::embedding"}, False),
        ({"whole": [16, 256], "piece": [30_000, 64], "weight": [8, 1], "layer": "aten::embedding"}, False),
    ],
    ids=[
        "samples of a batch",
        "half of a batch",
        "a border is cut off",
        "half of a picture",
        "some of the channels",
        "steps through time",
        "sounds",
        "a state beside each step",
        "no convolution",
        "no shapes",
        "one text of a request",
        "half of the texts",
        "more than half of them",
        "the next token of each text",
        "a token of half of the texts",
    ],
)
def test_what_is_a_piece_by_its_shape(shapes: dict[str, object], found: bool) -> None:
    assert bool(joined(network(**shapes))) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"pieces": 4}, True),
        ({"pieces": 3}, False),
        ({"calls": 16}, True),
        ({"calls": 15}, False),
        ({"calls": 20, "fewer": 2}, True),
        ({"calls": 20, "fewer": 3}, False),
        ({"backward": True}, False),
        ({"calls": 80}, True),
    ],
    ids=[
        "four",
        "three",
        "short",
        "a layer",
        "nearly alike",
        "not alike",
        "training",
        "longer than any loop",
    ],
)
def test_which_passes_are_those_of_pieces(told: dict[str, object], found: bool) -> None:
    assert bool(joined(network(**told))) is found  # type: ignore[arg-type]


@pytest.mark.parametrize(("grid", "found"), [(8, True), (132, False)])
def test_pieces_that_fill_the_gpu_gain_nothing(grid: int, found: bool) -> None:
    made = network(grid=grid, busy_us=19.0)
    assert bool([each for each in joined(made) if each.expected > 1.2]) is found


def test_work_of_the_cpu_on_each_result_remains() -> None:
    (alone,), (worked_on,) = joined(network()), joined(network(work_us=400.0))
    assert worked_on.expected < 0.5 * alone.expected
    assert worked_on.expected < (8 * (20 * 20 + 414)) / (8 * 400)


def test_windows_of_scans_are_pieces() -> None:
    (found,) = joined(planned(PROGRAMS / "windows.pt.trace.json.gz"))
    assert found.proposal.title.startswith("Run the model on 8 pieces at once")
    assert found.expected < 1.2, "its results are averaged on the CPU, which takes most of the time"


def test_weights_that_each_piece_converts_are_converted_once_for_all() -> None:
    def promised(dims: list[int]) -> float:
        def body(trace: TinyTrace, _: int) -> None:
            at = 10.0
            for _text in range(8):
                trace.shapes(trace.op(at, at + 2, "aten::slice"), [[8, 64], [], []], ["", "", ""])
                trace.shapes(trace.op(at + 3, at + 7, "aten::embedding"), [[90, 64], [1, 64]], ["", ""])
                trace.kernels(at + 4, 1, 2, 5, "void embedding_kernel")
                at += 10
                for place in range(20):
                    trace.shapes(trace.op(at, at + 4, "aten::to"), [dims, [], []], ["", "", ""])
                    trace.operation(at + 3, at + 43, "void cast_kernel", at + 1)
                    trace.shapes(trace.op(at + 10, at + 20, "aten::linear"), [[1, 64], [128, 64]], ["", ""])
                    trace.operation(at + 45, at + 50, f"void gemm{chr(97 + place)}_kernel", at + 12)
                    at += 50

        (found,) = joined(plan_of_body(body, length=60 + 8 * 1010))
        return found.expected

    assert promised([128, 64]) > 2 * promised([127, 64])
