"""What runs inside the backward pass: which function of autograd each call belongs to."""

from __future__ import annotations

from parsers.model import BOOL, I64
from rules.replay.surroundings import Surroundings

_FUNCTION = "autograd::engine::evaluate_function"


def function_of(around: Surroundings) -> I64:
    """The event of the innermost autograd function around each call; -1 outside the backward pass."""
    return around.around(lambda name: name.startswith(_FUNCTION))


def in_backward(around: Surroundings) -> BOOL:
    """Whether each call is made in the backward pass."""
    return around.inside(lambda name: name.startswith(_FUNCTION))
