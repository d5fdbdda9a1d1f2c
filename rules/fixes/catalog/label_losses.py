"""Losses that compare scores with a distribution built from labels."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, together, without_calls
from rules.fixes.forms.dense_targets import dense_targets
from rules.fixes.forms.written import calls_of, costly_calls
from rules.remedies.remedy import pytorch_remedy
from rules.replay.replay import Replay

# of the time of building the distribution, comparing it and its gradients, once labels are smoothed by the loss: it
# still reads all scores for their sum, and adds two gradients. One translation model of 37,000 words: 4.9 ms to 0.9
LEFT, LEFT_AT_MOST = 0.2, 0.5

_SMOOTHING_CODE = """loss = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1, ignore_index=padding)
# not F.kl_div(scores.log_softmax(-1), distribution), with a number for each class of each row"""


@fix
class SmoothLabelsInLoss:
    id = "smooth-labels-in-loss"
    explanation = f"""
When it applies
    At most 32 operators before a loss (kl_div, cross_entropy), one place of each row is written in a tensor of the
    sizes of its target. With what fills that tensor, the loss and its gradients take at least 5 % of the GPU's time.
    Shapes must be recorded.

What is changed in the replay
    Of this time, {percent(LEFT)} remains: a loss that takes the labels still reads all scores. Nothing looks for rows
    of padding before it.

What makes it more or less
    How the distribution was made, and compared: {percent(LEFT_AT_MOST)} remains at most, and so does what looks for
    padding.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        found = dense_targets(analysis)
        nodes, share = costly_calls(analysis, replay, found.distribution)
        if not share:
            return
        looks = without_calls(replay, calls_of(analysis, found.padding), gaps=0.0)
        operations = nodes[replay.device.launch]
        yield Proposal(
            title=f"Smooth labels in the loss: {percent(share)} of the GPU's time builds a distribution from them",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR),
            culprit="a distribution over all classes",
            problem="A distribution is built from labels for the loss",
            remedy=pytorch_remedy(
                "Pass the labels: cross_entropy smooths them itself (label_smoothing), and leaves out padding "
                "(ignore_index).",
                code=_SMOOTHING_CODE,
            ),
            expected=together(durations_times(operations, LEFT), looks),
            low=durations_times(operations, LEFT_AT_MOST),
            depends_on="how the distribution is made",
        )
