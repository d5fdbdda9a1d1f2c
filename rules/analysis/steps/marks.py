"""Which regions may mark steps, by their names: known software's, numbered ones, ones with a word for a step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parsers.model.arrays import BOOL
from parsers.model.names.steps import engine_step, numbered

_WORD = re.compile(
    r"(?<![a-z])(step|iter|iteration|batch|request|inference|token|decode|prefill|generate|generation|sample|frame|"
    r"epoch|train|training|trainstep|microbatch|query|episode)s?(?![a-z])",
    re.IGNORECASE,
)
_NEVER = re.compile(
    r"layer|block|module|stage|head|bucket|expert|fsdp|ddp|nccl|conv|attn|attention|mlp|level|chunk|## |"
    r"aten::|rank|worker|"
    r"pass\.|compile",
    re.IGNORECASE,
)
_COARSE = re.compile(r"epoch|episode", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mark:
    """What regions that may be the same steps have in common; ``stated`` ones are steps also when there is but one."""

    stem: str
    numbered: bool = False
    stated: bool = False

    @property
    def is_coarse(self) -> bool:
        """Whether it marks something that holds many steps."""
        return bool(_COARSE.search(self.stem))

    @property
    def says_step(self) -> bool:
        """Whether a word for a step is part of it."""
        return self.stated or bool(_WORD.search(self.stem))


def mark_of(name: str) -> Mark | None:
    """The mark of a region by its name; None for regions that are no steps."""
    if stem := engine_step(name):
        return Mark(stem, stated=True)
    if _NEVER.search(name):
        return None
    parts = numbered(name)
    if parts is not None:
        return Mark(parts[0], numbered=True)
    return Mark(name) if _WORD.search(name) else None


def follow_on(names: list[str]) -> BOOL:
    """Whether each step is directly followed by the next one: unless their numbers say that some are missing."""
    counts = [None if (mark := mark_of(name)) and mark.stated else numbered(name) for name in names]
    return np.array(
        [one is None or other is None or other[1] == one[1] + 1 for one, other in pairwise(counts)], bool
    )
