"""Memory that is kept from step to step, and garbage that is collected seldom."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.calls import Call
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.names.host_language import Audience, program_of
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step, per_step, together, without_waiting
from rules.remedies.host_work import COLLECT_SELDOM
from rules.remedies.memory import NEVER_GIVEN_BACK, kept_memory
from rules.replay.given_back import empties_cache, given_back_beside
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

MIN_SHARE = 0.02  # of the step
MADE_RARER = 0.9  # of the time is gone at least: ten times as seldom


@fix
class CollectGarbageSeldom:
    id = "collect-garbage-seldom"
    switches = ("gc-freeze",)
    explanation = """
When it applies
    Ranges or frames of Python's garbage collector appear between the launches: a script that Stallscope records gets
    a range for each full collection, torch's profiler does with stacks and record_python_gc_info, and others where the
    program opens one. Where most of the calls that free memory follow a collection directly, or are followed by one,
    the program gives memory back together with it (torch.cuda.empty_cache()): one change ends both.

What is changed in the replay
    The collections are gone; all other CPU work stays. With memory that is given back, so are all calls that allocate
    and free, and what they wait for.

What makes it more or less
    How much garbage may pile up before the next collection. Collecting a tenth as often gives nine tenths of the
    gain.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        garbage = surroundings_of(analysis).garbage_ns
        nodes = garbage > 0
        each = most_per_step(replay, garbage)
        if not _is_told(replay, each):
            return
        hit = len(distinct_values(replay.host.step[nodes]))
        taken = f"{duration(each)} of CPU work"
        categories = (Category.HOST_BOUND, *((Category.VARIABILITY,) if hit < replay.steps else ()))
        title = f"Collect Python's garbage less often: it takes {taken} {replay.in_step}"
        remedy = COLLECT_SELDOM
        memory = given_back(analysis)
        if memory.any():
            often = per_step(replay, float(np.count_nonzero(memory)))
            title = (
                "Stop collecting garbage and giving memory back all the time: "
                f"{taken}, and {often:,.0f} calls that allocate or free memory, {replay.in_step}"
            )
            categories, remedy = (*categories, Category.ALLOCATOR), NEVER_GIVEN_BACK
        kept = without_waiting(memory)
        yield Proposal(
            title=title,
            categories=categories,
            culprit="Python's garbage collection",
            remedy=remedy,
            expected=together(less_host_time(nodes, garbage), kept),
            low=together(less_host_time(nodes, garbage * MADE_RARER), kept),
            depends_on="how much garbage may pile up before the next collection",
        )


@derived
def given_back(analysis: Analysis) -> BOOL:
    """The calls that allocate and free memory because a program gives it back whenever it collects garbage.

    None where the collections are not worth a word, or memory is freed elsewhere.
    """
    replay, garbage = replay_of(analysis), surroundings_of(analysis).garbage_ns
    if not _is_told(replay, most_per_step(replay, garbage)):
        return np.zeros(len(replay.host), bool)
    return given_back_beside(analysis, garbage > 0)


def _is_told(replay: Replay, each: float) -> bool:
    """Whether collections of so many ns in a step are worth a change."""
    return each > 0 and each >= MIN_SHARE * replay.usual_ns


@fix
class KeepMemory:
    id = "keep-memory"
    switches = ("expandable-segments",)
    explanation = """
When it applies
    Steps call the driver to allocate or free memory: cudaMalloc, cudaFree, cudaHostAlloc. Memory that is given back
    with each collection of garbage goes with that. Where PyTorch's operators allocate it and most of it is freed
    outside of them, the program empties the cache.

What is changed in the replay
    These calls are gone, and nothing waits for the GPU to free memory.

What makes it more or less
    How much the profiler adds to each call. Allocation forced by a model near the GPU's memory limit ends only with
    smaller tensors.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = (replay.host.call == Call.ALLOCATE) & ~given_back(analysis)
        if not nodes.any():
            return
        milliseconds = per_step(replay, float((replay.host.end - replay.host.start)[nodes].sum())) / 1e6
        often = per_step(replay, float(np.count_nonzero(nodes)))
        what = "Reuse memory"
        if empties_cache(analysis) and program_of(analysis.trace) is Audience.PYTORCH:
            what = "Do not empty the cache of memory (torch.cuda.empty_cache())"
        yield Proposal(
            title=(
                f"{what}: {often:,.0f} calls {replay.in_step} allocate or free it, "
                f"{duration(milliseconds * 1e6)}"
            ),
            categories=(Category.ALLOCATOR,),
            culprit=analysis.trace.name(int(replay.host.event[np.flatnonzero(nodes)[0]])),
            remedy=kept_memory(analysis.trace),
            expected=without_waiting(nodes),
        )
