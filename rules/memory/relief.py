"""What would free memory at a moment, each with an estimate: what holds it decides which of them help."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from parsers.model import BOOL, Trace
from parsers.model.late import dataclass, regex
from parsers.model.memory import Memory
from parsers.model.units import percent, size
from rules.memory.account import DeviceMemory
from rules.memory.kinds import Kind

CHECKPOINTED = 0.5  # of the activations at least, as torch.utils.checkpoint on every second block frees
EIGHT_BIT = 0.75  # two moments of one byte each instead of four
MIN_LOGITS = 0.1  # of what is held: less is not worth another loss
_LOSS = regex(r"loss|cross_entropy|log_softmax|nll_|logsumexp", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Relief:
    """One thing to do and the bytes that it would free, about."""

    freed: int
    what: str  # an imperative without its full stop

    def said(self, needed: int = 0) -> str:
        """ "Halve ...: frees about 1.18 GB, enough for what was asked."; ``needed`` is what was asked, if anything."""
        text = f"{self.what}: frees about {size(self.freed)}"
        if needed:
            enough = self.freed >= needed
            part = "enough for the request" if enough else f"{percent(self.freed / needed)} of the request"
            text += f", {part}"
        return f"{text}."


def reliefs(account: DeviceMemory, when: int, ranks: int = 1) -> tuple[Relief, ...]:
    """What would free memory that is held at a moment, the most first; ``ranks`` train the same model."""
    alive = account.alive(when)
    kinds = account.kinds_among(alive)
    state = kinds.get(Kind.OPTIMIZER, 0)
    per_batch = kinds.get(Kind.ACTIVATIONS, 0) + kinds.get(Kind.TEMPORARIES, 0)
    of_loss = alive & loss_of(account)
    logits = int(account.memory.allocations.size[of_loss].sum())
    inside = account.kinds_among(alive & ~of_loss).get(Kind.ACTIVATIONS, 0)
    found = [
        Relief(int(CHECKPOINTED * inside), "Checkpoint activations"),
        Relief(per_batch // 2, "Halve the micro-batch and double the gradient accumulation"),
        Relief(int(EIGHT_BIT * state), "Use an optimizer with 8-bit state"),
    ]
    if ranks > 1:
        shared = state + kinds.get(Kind.GRADIENTS, 0)
        found.append(
            Relief(int(shared * (1 - 1 / ranks)), f"Shard optimizer state and gradients over {ranks} ranks")
        )
    if logits >= MIN_LOGITS * account.at(when):
        found.append(Relief(logits, "Compute the loss in chunks, or fused, so that logits are not kept"))
    return tuple(sorted((each for each in found if each.freed > 0), key=lambda each: -each.freed))


def ranks_of(trace: Trace) -> int:
    """How many processes a recording knows to train together."""
    stated = max((each.world_size or 1 for each in trace.ranks), default=1)
    return max(stated, len({each.rank for each in trace.devices}))


def loss_of(account: DeviceMemory) -> BOOL:
    """Allocations of a loss: what its functions made, and what else is exactly as large as the largest of that.

    The backward pass of a loss makes the gradient of the logits, which is as large as they are and has no stack.
    """
    memory, table = account.memory, account.memory.allocations
    of_loss = _stacks_of_loss(memory)
    made = account.mine & (table.stack >= 0)
    made[made] = of_loss[table.stack[made]]
    if made.any():
        made |= account.mine & (table.size == table.size[made].max())
    return made


def _stacks_of_loss(memory: Memory) -> BOOL:
    wanted: Sequence[bool] = [_LOSS.search(each.function) is not None for each in memory.frames]
    found = np.zeros(max(len(memory.stack_offset) - 1, 0), bool)
    if len(memory.stack_frame):
        at = np.flatnonzero(np.array(wanted, bool)[memory.stack_frame])
        found[np.searchsorted(memory.stack_offset, at, side="right") - 1] = True
    return found
