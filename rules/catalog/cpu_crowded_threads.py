"""A program on the CPU alone whose operators start more threads than there are cores for them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Finding, rule
from rules.losses.cpu_rule import CpuRule
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import as_many_threads
from rules.terms.culprit import reason
from rules.wording.phrases import number_of_cores


@rule
class CpuCrowdedThreads(CpuRule):
    """More threads than cores."""

    id = "cpu-crowded-threads"
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and PyTorch's operators start more threads than the program has cores.

Why it costs time
    The threads of an operator wait for each other at its end. Where they take turns on a core, an operator lasts
    until the last of them has had its turn, and threads that wait take the core from threads that compute.

How it decides
    stallscope capture notes how many cores the program may use, by its affinity and its container's quota, and how
    many threads PyTorch starts. If these are more, an operator may take as many times longer as there are threads for
    each core: that is the most that can be saved. Below {percent(MIN_SHARE)} of a step nothing is reported, nor for
    other recordings, which do not say these numbers.

What to try
    Start as many threads as there are cores, or give the program more cores.

When it is wrong
    If the operators are so small that they run on one thread anyway, nothing is saved.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        capture = analysis.trace.capture
        if capture.cores is None or capture.threads is None:
            return
        cores, threads = capture.cores, capture.threads
        computing = time.without_recorder(time.computing)
        ceiling = round(computing * (1 - cores / threads))
        if ceiling < MIN_SHARE * time.step_ns:
            return
        longest = [event for event, _ in time.shares(time.activity.operators, time.computing)][:MAX_NAMED]
        yield self.lost(
            analysis,
            time,
            ceiling,
            f"{threads:,} threads share {number_of_cores(cores)}",
            took=time.computes * time.step_ns,
            account=(
                f"PyTorch starts {threads:,} threads for an operator, and the program may use "
                f"{number_of_cores(cores)}. Operators take {percent(time.computes)} of the time; how much of that is "
                "waiting for a core was not recorded."
            ),
            remedy=as_many_threads(cores),
            culprit=reason("more threads than cores"),
            evidence=evidence_of(analysis.trace, np.array(longest, np.int64)),
            unknown=("How much of this is waiting: try it with fewer threads.",),
            confidence="medium",
        )
