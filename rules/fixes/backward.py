"""What runs inside the backward pass and inside optimizers."""

from __future__ import annotations

from parsers.model import F64, I64, EventKind, derived
from rules.analysis.analysis import Analysis
from rules.analysis.names.operators import AUTOGRAD_FUNCTION
from rules.replay.surroundings import surroundings_of


@derived
def autograd_functions(analysis: Analysis) -> I64:
    """The event of the innermost autograd function around each call of the replay; -1 outside the backward pass."""
    return surroundings_of(analysis).around(lambda name: name.startswith(AUTOGRAD_FUNCTION))


@derived
def optimizers_ns(analysis: Analysis) -> F64:
    """How much of the time before each call of the replay passed inside a range of an optimizer."""
    return surroundings_of(analysis).time_inside(_is_optimizer, EventKind.REGION)


@derived
def backward_ns(analysis: Analysis) -> F64:
    """How much of it passed inside functions of autograd."""
    return surroundings_of(analysis).time_inside(
        lambda name: name.startswith(AUTOGRAD_FUNCTION), EventKind.CPU_OP
    )


def _is_optimizer(name: str) -> bool:
    return name.startswith("Optimizer.")
