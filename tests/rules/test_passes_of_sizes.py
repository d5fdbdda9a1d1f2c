"""Inputs of different sizes that pass through a network one by one: what shows that none comes from the one before."""

from __future__ import annotations

import pytest

from rules.fixes.plan import Plan, Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body

MIXED = (90, 60, 110, 75, 100, 65, 95, 80)
FALLING, PYRAMID = (110, 100, 95, 90, 80, 75, 65, 60), (90, 60, 40, 60, 90, 110, 120, 130)
GROWING = (60, 61, 62, 63, 64, 65, 66, 67)
GENERATED = (60, 1, 1, 1, 75, 1, 1, 1)
CHANNELS = ((32, 80, 7), (32, 32, 3), (16, 32, 5), (1, 16, 7))  # of the weights of the layers


def vocoder(
    lengths: tuple[int, ...] = MIXED,
    *,
    sent: bool = True,
    layers: tuple[tuple[int, ...], ...] = CHANNELS,
    beside: int = 4,
    fewer: int = 0,
    table: bool = False,
    backward: bool = False,
    counts: bool = False,
    first_us: float = 0.0,
    first: str = "weight_norm_fwd",
    weights_differ: bool = False,
    busy_us: float = 4.0,
    grid: int = 8,
) -> Plan:
    """Steps of passes through these layers; ``beside`` of each it calls so many operators, ``fewer`` in the last one.

    Kernels of layers have other names for other lengths. ``sent``: the CPU sends each input.
    """

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for number, length in enumerate(lengths):
            if sent:
                trace.copy(at + 6, at + 7, "HtoD", at, bytes=4 * 80 * length)
            at += 10
            for place, weight in enumerate(layers):
                if first_us:
                    trace.op(at, at + 15, "aten::_weight_norm")
                    trace.operation(at + 6, at + 6 + first_us, f"void {first}_kernel", at + 1, grid=132)
                    at += 20
                name, taken, kept = "aten::conv1d", [1, weight[1], length], list(weight)
                if weights_differ:
                    kept[0] += number
                if table and not place:
                    name, taken, kept = "aten::embedding", [30_000, 64], [1, length]
                trace.shapes(trace.op(at, at + 15, name), [taken, kept], ["float", "float"])
                trace.operation(
                    at + 6, at + 6 + busy_us, f"void conv_of_{'abcdefgh'[number]}", at + 1, grid=grid
                )
                at += 20
                for other in range(beside - (fewer if number == len(lengths) - 1 else 0)):
                    trace.op(at, at + 15, "aten::relu")
                    trace.operation(
                        at + 6, at + 6 + busy_us, f"void relu{'abcdef'[other]}_kernel", at + 1, grid=grid
                    )
                    at += 20
            if counts:
                trace.op(at, at + 15, "aten::nonzero")
                trace.kernels(at + 1, 1, 2, 10, "void flag_kernel")
                at += 20
        if backward:
            trace.op(at - 2, at + 18, "autograd::engine::evaluate_function: ConvolutionBackward0")
            trace.kernels(at, 1, 8, 20, "void dgrad_kernel")
            at += 20

    each = 10 + len(layers) * (20 + 20 * beside + 20 * (first_us > 0)) + 20 * counts
    return plan_of_body(body, length=60 + len(lengths) * each)


def padded(plan: Plan) -> list[Promise]:
    assert plan.reason == ""
    assert plan.crashed == ()
    return [each for each in plan.promises if each.proposal.fix == "join-pieces"]


def test_sounds_of_different_lengths_pass_through_the_network_together() -> None:
    plan = vocoder()
    (found,) = padded(plan)
    assert (
        found.proposal.title
        == "Pad 8 inputs to one size and run the model once: they pass through it one by one"
    )
    assert found.proposal.problem == "8 inputs of different sizes pass through the model one by one"
    assert found.low < 4 < 5 < found.expected < 8
    told = {each.proposal.fix for each in plan.promises}
    assert "replay-cuda-graph" not in told, "no graph takes inputs of another size"


@pytest.mark.parametrize(
    ("lengths", "sent", "found"),
    [
        (MIXED, True, True),
        (MIXED, False, True),
        (FALLING, True, True),
        (FALLING, False, False),
        (PYRAMID, False, False),
        (GROWING, True, False),
        (GENERATED, True, False),
        ((60,) * 8, False, False),
        ((60, 90) * 4, True, False),
        ((60, 90, 75, 90) * 2, True, True),
        (MIXED[:4], True, True),
        (MIXED[:3], True, False),
    ],
    ids=[
        "sounds that are sent",
        "sounds that are there",
        "sorted and sent",
        "a pyramid down",
        "a pyramid down and up",
        "a text that grows",
        "two texts, token by token",
        "steps of one size",
        "two sizes in turn",
        "three sizes",
        "four",
        "three",
    ],
)
def test_what_sizes_are_those_of_items(lengths: tuple[int, ...], sent: bool, found: bool) -> None:
    assert bool(padded(vocoder(lengths, sent=sent))) is found


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"layers": CHANNELS[:3], "beside": 6}, False),
        ({"beside": 3}, True),
        ({"beside": 2}, False),
        ({"fewer": 0}, True),
        ({"fewer": 1}, False),
        ({"table": True}, True),
        ({"backward": True}, False),
        ({"counts": True}, False),
        ({"weights_differ": True}, False),
    ],
    ids=[
        "an expert",
        "sixteen calls",
        "fewer",
        "alike",
        "not alike",
        "texts",
        "training",
        "rows of an expert",
        "other layers",
    ],
)
def test_which_passes_are_those_of_one_network(told: dict[str, object], found: bool) -> None:
    assert bool(padded(vocoder(**told))) is found  # type: ignore[arg-type]


def test_weights_are_normalised_once_for_all() -> None:
    """Their kernels fill the GPU, and others like that take as long for all inputs."""
    (once,), (each,) = (padded(vocoder(first_us=50.0, first=name)) for name in ("weight_norm_fwd", "abs"))
    assert once.expected > 5.0 > 2.0 > each.expected


def test_inputs_that_fill_the_gpu_gain_nothing() -> None:
    assert not [each for each in padded(vocoder(grid=132, busy_us=18.0)) if each.expected > 1.2]


def test_at_least_four_at_once_and_what_is_padded_takes_time() -> None:
    """Work that is half of the time counts as much longer as the longest is than the usual one."""
    gains = []
    for lengths in (MIXED, (110, 11, 11, 12, 11, 12, 11, 12)):
        (found,) = padded(plan := vocoder(lengths, grid=66, busy_us=15.0))
        assert found.proposal.low is not None
        gains.append(plan.replay.gain([found.proposal.low]))
    assert gains[0] > 1.5 * gains[1]
