"""Whether the recorded program trains a model, or only runs one."""

from __future__ import annotations

import re

from parsers.model import EventKind, derived
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.per_name import distinct
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family

# not "optimized", as CUTLASS calls kernels of inference, too
# not "dgrad", by which libraries compute a transposed convolution as well, forwards
_OF_TRAINING = regex(
    r"backward|autograd::engine|optim(?!i[sz]ed|al)|zero_grad|(?<![a-z])bwd(?![a-z])|wgrad|loss|gradient|"
    r"adamw?(?![a-z])|(?<![a-z])train",
    re.IGNORECASE,
)


@derived
def is_training(analysis: Analysis) -> bool:
    """By the names of its kernels, operators and regions: a backward pass, a loss or an optimizer."""
    trace = analysis.trace
    kinds = of_kinds(trace.events.kind, EventKind.KERNEL, EventKind.CPU_OP, EventKind.REGION)
    names = distinct(trace.events.name[kinds])
    if (analysis.family_of_string[names] == Family.OPTIMIZER).any():
        return True
    return any(_OF_TRAINING.search(trace.strings[name]) for name in names.tolist())
