"""What the name of a range says about steps: one numbered step, a word for a step, a number at its end."""

from __future__ import annotations

import re
from functools import lru_cache

from parsers.model.late import regex

_OF_A_RUN = r"profiler|train|training|eval|evaluation|test|val|validation|inference|generation|global|main|outer|inner"
_BETWEEN = r"[\s_#:.\-/=(\[]*"
_NUMBERED_STEP = regex(
    rf"^(?:(?:{_OF_A_RUN}|optim|optimizer){_BETWEEN})?(?:step|iter|iteration){_BETWEEN}(\d{{1,18}})[)\]]?$",
    re.IGNORECASE,
)
_STEP = regex(
    rf"^(?:(?:{_OF_A_RUN}|micro)[ _-]?)?(?:steps?|iter|iteration|loop|epoch|request|inference|train_?batch)"
    rf"{_BETWEEN}\d*[)\]]*$",
    re.IGNORECASE,
)
_PROFILERS = regex(r"^ProfilerStep\s*#\s*\d+")
_SEPARATORS = " \t\n\r\f\v_#:.-/=(["  # may stand before a number at the end of a name
_MAX_NUMBER_LENGTH = 18  # digits


# How serving engines and trainers name one iteration: the same for all sizes of a batch.
_OF_ENGINES = (
    ("engine step", regex(r"^execute_(\w*_)?context_\d+\(.*\)_generation_\d+\(")),  # vLLM, SGLang
    ("scheduler step", regex(r"^step\[[A-Z_]+ bs=\d+")),  # SGLang
    ("executor step", regex(r"^\[Executor\] _forward_step \d+")),  # TensorRT-LLM
    ("training batch", regex(r"^\[pl\]\[profile\]run_training_batch")),  # Lightning
)


@lru_cache(maxsize=65536)
def engine_step(name: str) -> str:
    """What a serving engine's or trainer's own name for one iteration stands for; empty for other names."""
    return next((stem for stem, pattern in _OF_ENGINES if pattern.search(name)), "")


def is_profiler_step(name: str) -> bool:
    """Whether a range is the mark that PyTorch's profiler itself makes for a step."""
    return _PROFILERS.match(name) is not None


def step_number(name: str) -> int | None:
    """5 for "step_5", "Iteration 5", "train_step 5" or "ProfilerStep#5": one step of a run; None for any other name."""
    match = _NUMBERED_STEP.match(name.strip())
    return int(match[1]) if match else None


def says_step(name: str) -> bool:
    """Whether a name stands for a step, a part of one or many of them, numbered or not: "micro step", "epoch 3".

    "optimizer step" is none: that is a phase of every step.
    """
    return _STEP.match(name) is not None


def numbered(name: str) -> tuple[str, int] | None:
    """``("step", 5)`` for "step_5", "step 5" or "Step#5"; None for a name without a number at its end."""
    bare = name.rstrip(")]")
    before = bare.rstrip("0123456789")
    stem = before.rstrip(_SEPARATORS)
    digits = bare[len(before) :]
    return (stem, int(digits)) if stem and 0 < len(digits) <= _MAX_NUMBER_LENGTH else None
