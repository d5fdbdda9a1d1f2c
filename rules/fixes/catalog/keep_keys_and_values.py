"""Sequences that are continued without keeping anything of what was computed of them so far."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import MIN_NS, durations_times
from rules.fixes.forms.growing_sequences import MIN_PASSES, MIN_POSITIONS, growing_sequences
from rules.fixes.forms.unread_rows import reading_weights_ns
from rules.fixes.forms.written import costly_calls, operations_of
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

_KEEP = (
    "Keep the keys and values of earlier tokens: {} of the GPU's time computes all of them again for each new one",
    "passes over all tokens so far",
    "All tokens so far are computed again for each new one",
    pytorch_remedy(
        "Keep each layer's keys and values, and send only the new token through the model: use_cache=True in "
        "transformers; in a model of your own, a cache that attention appends to.",
        "Allocate the cache for the longest text once and write into it (StaticCache in transformers), so that "
        "nothing is copied and a CUDA graph can replay each token.",
        code="""output = model(prompt, use_cache=True)
for _ in range(length):
    token = pick(output.logits[:, -1:])                  # the new token alone goes through the model
    output = model(token, past_key_values=output.past_key_values, use_cache=True)""",
    ),
)
_CARRY = (
    "Carry the state of the recurrent layers: {} of the GPU's time goes through all steps so far for each new one",
    "recurrent layers over all steps so far",
    "All steps so far are computed again for each new one",
    pytorch_remedy(
        "Keep the state that the layer returns, and give it the new step alone.",
        code="""output, state = lstm(history)
for _ in range(horizon):
    new = predict(output[:, -1:])
    output, state = lstm(new, state)                     # not lstm(torch.cat([history, new], 1))""",
    ),
)


@fix
class KeepKeysAndValues:
    id = "keep-keys-and-values"
    explanation = f"""
When it applies
    No gradients are computed, and at least {MIN_PASSES} passes in a row have an attention with a query for each
    position: at least {MIN_POSITIONS}, and one more in each pass. Where there is no such attention, the same goes for
    recurrent layers. What works on all of these positions takes at least 5 % of the GPU's time. Shapes must be
    recorded.

What is changed in the replay
    In each pass but the first of these, the time on the GPU of what works on all positions is divided by how many there
    are. A product still takes as long as reading its weights, and no kernel becomes shorter than 4 us.

What makes it more or less
    How long the CPU takes to launch a pass, which stays, and how keys and values are kept: joining them to the earlier
    ones copies them for each token, a buffer that is long enough from the start does not.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found, device = growing_sequences(analysis), replay.device
        _, share = costly_calls(analysis, replay, found.operators)
        if not share:
            return
        mine, place = operations_of(analysis, replay, found.operators)
        weights = reading_weights_ns(analysis.trace, replay, found.operators[place])
        took = np.maximum(device.duration[mine], 1.0)
        factor = np.ones(len(device))
        factor[mine] = np.minimum(
            np.maximum(1.0 / found.positions[place], np.maximum(weights, MIN_NS) / took), 1.0
        )
        title, culprit, problem, what = _CARRY if found.recurrent else _KEEP
        yield Proposal(
            title=title.format(percent(share)),
            categories=(Category.RECOMPUTATION, Category.GPU_BOUND),
            culprit=culprit,
            problem=problem,
            remedy=what,
            expected=durations_times(mine, factor),
        )
