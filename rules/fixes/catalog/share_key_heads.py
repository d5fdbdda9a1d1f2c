"""Keys and values that several heads share are not copied for each of them."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import durations_times, together, without_calls
from rules.fixes.forms.shared_heads import shared_heads
from rules.fixes.forms.written import calls_of, costly_calls
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

ONCE = 0.5  # of the attention's time, once it reads each key for all heads that share it

_CODE = """out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# instead of k.repeat_interleave(groups, dim=1) and the same for v
# or, for one new token: q.view(batch, shared, groups, size) with k and v as they are"""


@fix
class ShareKeyHeads:
    """Keys and values that are repeated for grouped-query attention."""

    id = "share-key-heads"
    explanation = """
When it applies
    At most 16 operators before an attention, or one of its products, a tensor of as many sequences and of the same
    length and size is repeated to the number of its heads: by repeat_interleave or repeat, or by an expand whose result
    is copied. With its gradients that takes at least 5 % of the GPU's time. Shapes must be recorded.

What is changed in the replay
    The copies are gone, and so is what sums up their gradients. An attention with at most 16 queries for a head does
    little but read keys and values: it takes half of its time.

What makes it more or less
    Whether the attention then reads each key once for all heads that share it: half of its time at best, with many
    queries too, and nothing at least.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = shared_heads(analysis)
        nodes, share = costly_calls(analysis, replay, found.copying)
        if not share:
            return
        gone = without_calls(replay, nodes)
        attending, reading = (
            calls_of(analysis, each)[replay.device.launch] for each in (found.attention, found.reading)
        )
        yield Proposal(
            title=f"Do not repeat keys and values for shared heads: {percent(share)} of the GPU's time copies them",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND),
            culprit="copies of keys and values",
            problem="Keys and values are repeated for shared heads",
            remedy=remedy(
                for_pytorch(
                    "scaled_dot_product_attention(..., enable_gqa=True) takes keys and values with fewer heads than "
                    "the queries."
                ),
                for_pytorch(
                    "Otherwise group the queries: those that share a key head are rows of one product."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=together(gone, durations_times(reading, ONCE)),
            low=gone,
            high=together(gone, durations_times(attending, ONCE)),
            depends_on="whether the attention then reads each key only once",
        )
