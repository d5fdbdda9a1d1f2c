"""Python's garbage is collected every few hundred steps, not whenever enough objects were made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step
from rules.remedies.host_work import COLLECT_SELDOM
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

MIN_SHARE = 0.02  # of the step
MADE_RARER = 0.9  # of the time is gone at least: ten times as seldom


@fix
class CollectGarbageSeldom:
    """Collections of garbage on a thread that launches work."""

    id: ClassVar[str] = "collect-garbage-seldom"
    switches: ClassVar[tuple[str, ...]] = ("gc-freeze",)
    explanation: ClassVar[str] = """
When it applies
    Ranges or frames of Python's garbage collector appear between the launches: a script that Stallscope records gets
    a range for each full collection, torch's profiler does with stacks and record_python_gc_info, and others where the
    program opens one.

What is changed in the replay
    The collections are gone; all other CPU work stays.

What makes it more or less
    How much garbage may pile up before the next collection. Collecting a tenth as often gives nine tenths of the
    gain.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        garbage = surroundings_of(analysis).garbage_ns
        nodes = garbage > 0
        each = most_per_step(replay, garbage)
        if each < MIN_SHARE * replay.usual_ns:
            return
        hit = len(np.unique(replay.host.step[nodes]))
        yield Proposal(
            title=(
                f"Collect Python's garbage less often: it takes {duration(each)} of CPU work {replay.in_step}"
            ),
            categories=(Category.HOST_BOUND, *((Category.VARIABILITY,) if hit < replay.steps else ())),
            culprit="Python's garbage collection",
            remedy=COLLECT_SELDOM,
            expected=less_host_time(nodes, garbage),
            low=less_host_time(nodes, garbage * MADE_RARER),
            depends_on="how much garbage may pile up before the next collection",
        )
