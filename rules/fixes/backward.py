"""What runs inside the backward pass: which function of autograd each call belongs to."""

from __future__ import annotations

from parsers.model import I64, derived
from rules.analysis.analysis import Analysis
from rules.replay.surroundings import surroundings_of

_FUNCTION = "autograd::engine::evaluate_function"


@derived
def autograd_functions(analysis: Analysis) -> I64:
    """The event of the innermost autograd function around each call of the replay; -1 outside the backward pass."""
    return surroundings_of(analysis).around(lambda name: name.startswith(_FUNCTION))
