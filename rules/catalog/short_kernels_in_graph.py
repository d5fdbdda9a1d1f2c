"""A CUDA graph of short kernels: the GPU starts them one after another, and that takes a good part of the time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import EventKind
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.durations import durations
from rules.analysis.gpu.inside_window import operations
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import between_nodes
from rules.remedies.launching import FUSED_IN_GRAPH
from rules.wording.headline import Headline
from rules.wording.phrases import counted


@rule
class ShortKernelsInGraph(Rule):
    """What a graph cannot take away: the start of each kernel on the GPU."""

    id = "short-kernels-in-graph"
    category = Category.LAUNCH_BOUND
    needs = frozenset({Need.GPU_EVENTS})
    explanation = """
What it found
    A CUDA graph, or another launch of many kernels at once, whose kernels are so short that much of the time passes
    between them.

Why it costs time
    A graph takes the launches from the CPU. The GPU still starts one kernel after another, about a microsecond each.

How it decides
    It takes the gaps between kernels of one launch that are too short to be a wait. They must take 15 % of the time.

What to try
    Fewer, longer kernels: fuse neighbours (torch.compile, a kernel of your own), or give each more work with a larger
    batch. Kernels that do not depend on each other can be captured on several streams, and then run side by side.

When it is wrong
    If the gaps come from recording each kernel of a graph, which makes them longer.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waiting, ns = between_nodes(analysis)
        if not ns:
            return
        kernels = operations(analysis, waiting.device, EventKind.KERNEL)
        usual = duration(float(np.median(durations(analysis.trace, kernels))))
        gap = duration(ns / max(len(waiting.rows), 1))
        yield self.finding(
            analysis,
            headline=Headline("The kernels of a graph are too short", waiting.extent.share(ns)),
            account=f"{counted(analysis, len(kernels), 'kernel', verb='run')}, usually {usual} each, and the GPU needs "
            f"{gap} from one to the next: {waiting.extent.part(ns)} pass between kernels that were launched together.",
            remedy=FUSED_IN_GRAPH,
            ceiling_ns=ns,
            culprit=waiting.culprit,
            device=waiting.device,
            evidence=waiting.evidence(),
            unknown=(
                "How much of it is the profiler's, which looks at every kernel of a graph: compare with a run without "
                "it.",
            ),
            confidence="medium",
        )
