"""The GPU waits for CPU work that launches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from parsers.model import Trace
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis, analyse
from rules.analysis.causes import Cause
from rules.analysis.host_language import host_code
from rules.analysis.idle_finding import idle_finding
from rules.analysis.idle_time import IdleTime
from rules.analysis.phrases import listed, part_of_step, share
from rules.base import Category, Finding, Need, rule
from rules.thresholds import LEAST_SHARE

_CODE = """from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(max_workers=1)
pending = pool.submit(host_work, 0)       # host_work: what runs on the CPU between launches
for step in range(steps):
    train_step(batch)                     # launches the GPU's work and returns at once
    result = pending.result()
    pending = pool.submit(host_work, step + 1)"""


@rule
class WaitingForPython:
    """Idle time while the CPU is busy with something that launches no GPU work."""

    id: ClassVar[str] = "waiting-for-python"
    category: ClassVar[Category] = Category.HOST_BOUND
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS})
    explanation: ClassVar[str] = """
What it found
    The GPU has finished everything it was given while the CPU works on something that gives it nothing new: Python
    code, tokenising, logging, metrics, loading of kernels, compilation.

Why it costs time
    GPU work is only launched by the CPU. While the CPU does something else on the same thread, the GPU's queue runs
    empty and stays empty.

How it decides
    It takes each gap on the GPU and the thread that ended it. The time counts as waiting for the host when that
    thread launched nothing for at least 0.5 ms and ten times its usual distance between launches, or was inside a
    region that launches nothing at all and lasts at least 0.1 ms. Data loading, allocation and synchronisation are
    counted on their own, and short pauses between launches count as launch overhead.

What to try
    Move the work off the critical path: into a thread or process that prepares the next step, after the launches of
    the next step, or onto the GPU. Do it less often. Make it faster.

When it is wrong
    A recording with Python stacks slows Python down, so the real share is smaller. Work in a C extension that holds
    no region appears as "Python outside any region".
"""

    def check(self, trace: Trace) -> Iterable[Finding]:
        analysis = analyse(trace)
        waiting = IdleTime(analysis, Cause.HOST)
        if share(analysis, waiting.ns) < analysis.thresholds[LEAST_SHARE]:
            return
        culprit = waiting.culprit
        yield idle_finding(
            self,
            waiting,
            headline=f"The GPU waits for {host_code(trace)}",
            explanation=_explanation(analysis, waiting),
            advice=_advice(culprit, waiting.inside_culprit()),
            code=_CODE,
            cannot_tell=_cannot_tell(trace, culprit),
        )


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
    first = waiting.blames[0]
    where = first.culprit
    text = (
        f"While {where} runs on the CPU, nothing is launched and the GPU has finished its queue: "
        f"{part_of_step(analysis, waiting.ns)}. {where} alone is {percent(share(analysis, first.ns))}, the longest "
        f"wait {duration(waiting.longest_ns)}."
    )
    others = [
        f"{each.culprit} ({percent(share(analysis, each.ns))})"
        for each in waiting.blames[1:4]
        if share(analysis, each.ns) >= analysis.thresholds[LEAST_SHARE]
    ]
    return f"{text} Also: {listed(others)}." if others else text


def _advice(culprit: str, launches: int) -> tuple[str, ...]:
    lower = culprit.lower()
    if "optimizer" in lower:
        return (
            "Let the optimizer run as few fused kernels: torch.optim.AdamW(params, fused=True).",
            "Compile the step: torch.compile(optimizer.step).",
        )
    if "cudalaunchkernel" in lower or "module" in lower or "library" in lower:
        return (
            "The driver loads kernels on first use: run a few warm-up steps before measuring, or set "
            "CUDA_MODULE_LOADING=EAGER.",
        )
    if launches:
        return (
            f"Find what {culprit} does between its launches: hooks, bookkeeping, graph breaks, conversions on the CPU.",
            "Compile it (torch.compile) or capture it as a CUDA graph, so that Python is not in between.",
        )
    return (
        f"Run {culprit} in a worker process or a thread that prepares the next step, off the critical path.",
        "Or launch the next forward pass first, and do this work while the GPU computes.",
    )


def _cannot_tell(trace: Trace, culprit: str) -> str:
    if trace.capture.with_stack:
        return "Which lines inside the frame are slow: use a CPU profiler such as py-spy on this process."
    return (
        f"What inside {culprit} is slow: record with stacks (with_stack=True) or put record_function regions "
        "around its parts."
    )
