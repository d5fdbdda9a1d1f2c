"""A log of GPUs stands alone: it is described by what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from rules.analysis.analysis import Analysis
from rules.analysis.logs.device_log import device_logs, log_summary
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.wording.headline import Headline
from rules.wording.words import ours

_CODE = """# open the trace and the log of the same seconds together: they say when the GPU was slowed
with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler("trace")):
    run()"""


@rule
class DeviceLogAlone(Rule):
    """Information: what a device log says where there is no timeline."""

    id = "device-log-alone"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.DEVICE_LOG})
    explanation = """
What it found
    The recording is a log of one or more GPUs, without a timeline of what they ran.

Why it costs time
    It does not. A log says how busy a GPU was and what slowed it, not why.

How it decides
    Counters of utilisation or power were recorded, but no GPU operation.

What to try
    Record a timeline of the same seconds and open both together.

When it is wrong
    Utilisation counts every moment in which any kernel runs, however small: 100 % can hide a GPU that hardly works.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        logs = device_logs(trace)
        if not logs or len(trace.gpu_operations):
            return
        yield self.finding(
            analysis,
            headline=Headline(log_summary(trace).partition(":")[0]),
            account=" ".join(f"{log.text}." for log in logs),
            remedy=remedy(
                ours(
                    "Record what the GPU runs as well (torch.profiler, $RecordATimeline), and open both together."
                ),
                code=_CODE,
            ),
            unknown=("What ran on the GPU, and what it waited for: this requires a timeline.",),
        )
