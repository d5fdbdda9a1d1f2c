"""The GPU waits for CPU work that launches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from parsers.model import Trace
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.facts.host_language import host_code, is_python
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.culprits import OUTSIDE_REGIONS
from rules.analysis.idle.finding import idle_finding
from rules.analysis.idle.lost_time import IdleTime
from rules.analysis.names.calls import Call, call_of
from rules.base import Category, Finding, Need, rule
from rules.thresholds import LEAST_SHARE
from rules.wording.host_work import advice_by_name
from rules.wording.phrases import share, shares

MOST_OF_IT = 0.8  # of the waiting: then one culprit is all that needs saying

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

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        waiting = IdleTime(analysis, Cause.HOST)
        if share(analysis, waiting.ns) < analysis.thresholds[LEAST_SHARE]:
            return
        culprit = waiting.culprit
        yield idle_finding(
            self,
            waiting,
            headline=f"The GPU waits for {host_code(trace)}",
            explanation=_explanation(analysis, waiting),
            advice=_advice(culprit, waiting.inside_culprit()) + _advice_by_steps(trace, waiting),
            code=_CODE,
            cannot_tell=_cannot_tell(trace, culprit),
        )


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
    first = waiting.blames[0]
    part, longest = waiting.part, duration(waiting.longest_ns)
    if first.ns < MOST_OF_IT * waiting.worst_ns:
        where = shares(analysis, [(each.culprit, each.ns) for each in waiting.blames], 4)
        return (
            f"The CPU does something else than launching, and the GPU has finished its queue: {part}, the longest wait "
            f"{longest}. Where{waiting.on_worst}: {where}."
        )
    text = (
        f"{_doing(first.culprit)}, nothing is launched and the GPU has finished its queue: {part}. "
        f"{first.culprit} alone is {percent(share(analysis, first.ns))}{waiting.on_worst}, the longest wait {longest}."
    )
    least = analysis.thresholds[LEAST_SHARE]
    others = shares(analysis, [(each.culprit, each.ns) for each in waiting.blames[1:]], 3, least)
    return f"{text} Also: {others}." if others else text


def _doing(culprit: str) -> str:
    if is_call(culprit):
        return f"While the CPU is inside {culprit}"
    return f"While {culprit} runs" if OUTSIDE_REGIONS in culprit else f"While {culprit} runs on the CPU"


def is_operator(culprit: str) -> bool:
    """Whether the culprit is one of PyTorch's operators, alone or in a region."""
    return culprit.startswith("aten::")


def is_call(culprit: str) -> bool:
    """Whether the culprit is an API call, alone or in an operator."""
    return call_of(culprit.split(" ")[0]) is not Call.OTHER


def _advice_by_steps(trace: Trace, waiting: IdleTime) -> tuple[str, ...]:
    if not waiting.extent.few or not is_python(trace) or advice_by_name(waiting.culprit):
        return ()
    return (
        f"It comes {waiting.extent.text}: look for what does not run in every step. Garbage collection can be moved "
        "(gc.disable(), and gc.collect() every few hundred steps); logging, saving and evaluating can be made rarer.",
    )


def _advice(culprit: str, launches: int) -> tuple[str, ...]:
    lower = culprit.lower()
    if (known := advice_by_name(culprit)) and not is_call(culprit):
        return known
    if "optimizer" in lower:
        return (
            "Let the optimizer run as few fused kernels: torch.optim.AdamW(params, fused=True).",
            "Compile the step: torch.compile(optimizer.step).",
        )
    if is_call(culprit):
        return (
            "A call that takes this long usually loads a kernel's code on first use: run a few warm-up steps before "
            "measuring" + ("." if culprit.startswith("hip") else ", or set CUDA_MODULE_LOADING=EAGER."),
            "If it is slow in later steps too, look for what else holds the driver: other threads, other processes on "
            "this GPU, full memory.",
        )
    if OUTSIDE_REGIONS in culprit:
        return (
            "Find out what runs there: record with stacks, or put record_function regions around parts of the step.",
            "Then move it to a worker process or a thread, or launch the next forward pass before it.",
        )
    if is_operator(culprit):
        return (
            f"Find out why {culprit.split(' ')[0]} takes long on the CPU: first use, tensors that lie on the CPU, or "
            "very many small ones.",
            "Compile the code around it (torch.compile), so that many operators become one launch.",
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
        return f"Which lines of {culprit} are slow: use a CPU profiler such as py-spy on this process."
    if OUTSIDE_REGIONS in culprit:
        return (
            "What the CPU does there: record with stacks (with_stack=True), or add record_function regions."
        )
    if is_call(culprit):
        return "What the driver does in that call."
    return (
        f"What inside {culprit} is slow: record with stacks (with_stack=True) or put record_function regions "
        "around its parts."
    )
