"""The GPU waits for the data loader or for input code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.idle.beneath import beneath
from rules.analysis.idle.causes import Cause
from rules.analysis.idle.lost_time import IdleTime, idle_finding
from rules.analysis.names.regions import is_loader
from rules.base import Category, Finding, Need, Rule, rule
from rules.thresholds import LEAST_SHARE
from rules.wording.phrases import listed, share, without_stacks
from rules.wording.words import Words, for_python, for_pytorch, with_native

_LOADER_CODE = """loader = DataLoader(
    dataset,
    batch_size=64,
    num_workers=8,            # decode and collate in other processes
    pin_memory=True,          # so that copies to the GPU can overlap
    persistent_workers=True,
    prefetch_factor=4,
)
for batch in loader:
    batch = batch.to("cuda", non_blocking=True)"""
_REGION_CODE = """from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(max_workers=1)
upcoming = pool.submit(load_batch)        # load_batch: your input code
for step in range(steps):
    batch = upcoming.result()
    upcoming = pool.submit(load_batch)    # the next batch is prepared while the GPU works
    train_step(batch)"""


_JAX_ADVICE = (
    "Prepare the next batch in a thread or a process (grain, tf.data or a DataLoader), and move it with jax.device_put "
    "while this one is computed.",
)
_NATIVE_ADVICE = ("Prepare the next input in another thread while the GPU works on this one.",)


@rule
class WaitingForData(Rule):
    """Idle time while a data loader or an input region runs."""

    id: ClassVar[str] = "waiting-for-data"
    category: ClassVar[Category] = Category.INPUT_BOUND
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.CPU_EVENTS})
    explanation: ClassVar[str] = """
What it found
    The GPU has nothing to do while the program fetches or prepares the next batch.

Why it costs time
    The step can only start once its data is there. When loading takes longer than the GPU's work, every step waits.

How it decides
    It takes each gap on the GPU, finds the call that ended it and the thread that made the call, and looks at what
    that thread did during the gap. The time counts as waiting for data when the thread was inside a data loader
    (enumerate(DataLoader)#...) or inside a region whose name speaks of data, such as load, fetch, read, input,
    batch or preprocess, and launched nothing. Below {least-share} of the step it stays quiet.

What to try
    Load in several worker processes, pin the memory, prefetch the next batch while the GPU works on this one, move
    decoding and augmentation to the GPU, or store the data in a form that is cheaper to read.

When it is wrong
    When a region is named like input but does something else. When the recording itself slows Python down, loading
    takes longer than it usually does.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waiting = IdleTime(analysis, Cause.INPUT)
        if share(analysis, waiting.ns) < analysis.thresholds[LEAST_SHARE]:
            return
        culprit = waiting.culprit
        loader, below = is_loader(culprit.name), beneath(waiting)
        yield idle_finding(
            self,
            waiting,
            what="The GPU waits for data",
            account=_explanation(analysis, waiting) + below.text,
            remedies=with_native(_NATIVE_ADVICE, _advice(culprit.name, loader), _JAX_ADVICE),
            example=for_pytorch(_LOADER_CODE if loader else _REGION_CODE),
            unknown=()
            if below
            else (
                without_stacks(
                    analysis.trace,
                    f"What inside {culprit.text} is slow. Record with stacks (with_stack=True), or put "
                    "record_function regions around reading, decoding and collating.",
                ),
            ),
        )


def _explanation(analysis: Analysis, waiting: IdleTime) -> str:
    text = (
        f"While {waiting.culprit.text} runs, nothing is launched and the GPU idles: "
        f"{waiting.part}, the longest wait {duration(waiting.longest_ns)}."
    )
    others = [
        f"{each.culprit.text} ({percent(share(analysis, each.ns))})"
        for each in waiting.blames[1:3]
        if share(analysis, each.ns) >= analysis.thresholds[LEAST_SHARE]
    ]
    if others:
        text += f" Also waited for: {listed(others)}."
    if "_SingleProcessDataLoaderIter" in waiting.culprit.name:
        text += (
            " The DataLoader has no worker processes (num_workers=0): it loads in the training thread itself."
        )
    elif "_MultiProcessingDataLoaderIter" in waiting.culprit.name:
        text += " The DataLoader has worker processes, but they deliver batches more slowly than the GPU uses them."
    return text


def _advice(region: str, loader: bool) -> tuple[Words, ...]:
    if "_MultiProcessingDataLoaderIter" in region:
        return (
            for_python(
                "Use more workers (num_workers up to the number of CPU cores for each GPU) and a larger "
                "prefetch_factor."
            ),
            "Make one sample cheaper: cache decoded data, use a faster decoder, move augmentation to the GPU.",
        )
    if loader:
        return (
            for_python(
                "Load in worker processes: DataLoader(..., num_workers=8, pin_memory=True, persistent_workers=True)."
            ),
            for_python("Prepare the next batch while the GPU works on this one."),
        )
    return (
        for_python(
            f"Prepare the next batch in a thread or worker process while the GPU works, so that {region} is off "
            "the critical path."
        ),
        for_python("Launch the next forward pass before preparing the batch after it."),
    )
