"""Names of an engine's or a loop's steps that tell what one computes: prompts, or one token of each request."""

from __future__ import annotations

import re
from enum import IntEnum

from parsers.model.late import dataclass, regex

UNKNOWN = -1  # a count that the name does not tell


class StepKind(IntEnum):
    """What one iteration of an engine computes."""

    PREFILL = 1  # prompts alone
    DECODE = 2  # one token for each of several requests
    MIXED = 3  # both


@dataclass(frozen=True, slots=True)
class StepName:
    """What a region's name tells: how many prompts and how many requests being answered are in the step.

    ``prompt_tokens`` is the length of all prompts, or parts of prompts, that it computes.
    """

    kind: StepKind
    prompts: int = UNKNOWN
    decoded: int = UNKNOWN
    prompt_tokens: int = UNKNOWN


_VLLM = regex(r"^execute_(?:\w{0,40}_)?context_(\d{1,9})\((\d{1,9})?[^)]*\)_generation_(\d{1,9})\(")
_SGLANG = regex(r"^step\[([A-Z_]+)(?: bs=(\d{1,9}))?(?: toks=(\d{1,9}))?")
_SGLANG_MODES = {
    "EXTEND": StepKind.PREFILL,
    "PREFILL": StepKind.PREFILL,
    "SPLIT_PREFILL": StepKind.PREFILL,
    "DECODE": StepKind.DECODE,
    "MIXED": StepKind.MIXED,
}
_PLAIN = regex(r"^(prefill|decode|mixed)(?:[_ ]?(?:step|batch|iteration))?(?![a-z])", re.IGNORECASE)
_COUNT = regex(
    r"(?<![a-z])(bs|batch|batch_?size|n?seqs|num_seqs|num_reqs|requests)\s*[=:]\s*(\d{1,9})(?!\d)",
    re.IGNORECASE,
)
_OTHER_COUNT = regex(
    r"(?<![a-z])(toks|n?tokens|num_tokens|len|seq_?len|prompt_?len|step|iter)\s*[=:]\s*\d{1,9}", re.IGNORECASE
)
_TOKENS = regex(r"(?<![a-z])(?:toks|n?tokens|num_tokens)\s*[=:]\s*(\d{1,9})(?!\d)", re.IGNORECASE)
_LETTER = regex(r"[^\W\d_]")
_MAX_NAME_LENGTH = 200


def vllm_step(name: str) -> StepName | None:
    """``execute_context_1(779)_generation_0(0)``: requests (tokens) of prompts, then of those being answered."""
    match = _VLLM.match(name)
    if match is None or not (int(match[1]) or int(match[3])):
        return None
    prompts, decoded = int(match[1]), int(match[3])
    kind = StepKind.DECODE if not prompts else StepKind.MIXED if decoded else StepKind.PREFILL
    return StepName(kind, prompts, decoded, UNKNOWN if match[2] is None else int(match[2]))


def sglang_step(name: str) -> StepName | None:
    """``step[EXTEND bs=4 toks=512]``, ``step[DECODE bs=32]``."""
    match = _SGLANG.match(name)
    kind = _SGLANG_MODES.get(match[1]) if match else None
    return _with_batch(kind, match[2], match[3]) if match and kind else None


def plain_step(name: str) -> StepName | None:
    """``prefill``, ``decode_17``, ``decode bs=8 tokens=8``; other words in the name say that it is something else."""
    match = _PLAIN.match(name) if len(name) <= _MAX_NAME_LENGTH else None
    if match is None:
        return None
    rest = name[match.end() :]
    batch, tokens = _COUNT.search(rest), _TOKENS.search(rest)
    if _LETTER.search(_OTHER_COUNT.sub("", _COUNT.sub("", rest))):
        return None
    return _with_batch(StepKind[match[1].upper()], batch[2] if batch else None, tokens[1] if tokens else None)


def _with_batch(kind: StepKind, batch: str | None, tokens: str | None) -> StepName:
    count = UNKNOWN if batch is None else int(batch)
    if kind is StepKind.PREFILL:
        return StepName(kind, count, 0, UNKNOWN if tokens is None else int(tokens))
    return StepName(kind, 0, count, 0) if kind is StepKind.DECODE else StepName(kind)


def kind_of_step(name: str) -> int:
    """The ``StepKind`` that a step's name tells; 0 for one that tells none."""
    for naming in (vllm_step, sglang_step, plain_step):
        if (found := naming(name)) is not None:
            return found.kind
    return 0
