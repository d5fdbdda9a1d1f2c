"""A program on the CPU alone whose steps wait for their data."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration, percent
from rules.analysis.cpu.cpu_time import CpuTime
from rules.analysis.names.regions import is_loader
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_work import MAX_NAMED, CpuRule, culprit_of, inside, own_lines
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import loaded_beside, region_beside
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import number_of_cores, without_stacks

MIN_LOADS = 2  # of one, nobody knows whether it comes again
NEARLY = 0.05  # of a worker, or of the rest of a step: so little more makes no difference
MAX_WORKERS = 8  # whose effect is told
MAX_BUSY = 0.8  # of a worker's time: batches differ, and one without pauses is late as often as early
_OF_WORKERS = "_MultiProcessingDataLoaderIter"


@rule
class CpuLoading(CpuRule):
    id = "cpu-loading"
    category = Category.INPUT_BOUND
    steps_needed = 0
    explanation = f"""
What it found
    Only the CPU was recorded, and its busiest thread spends much of a step in a data loader.

Why it costs time
    Without worker processes, the training thread makes each batch itself, and computes nothing meanwhile. With
    workers, it waits until they deliver one.

How it decides
    It adds up the time inside data loaders (enumerate(DataLoader)#...) and ranges named like one, such as load,
    fetch, read or preprocess, and takes out what the profiler costs. Below {{least-share}} of the step nothing is
    reported, nor if only one batch is loaded.

What to try
    Load in other processes, or in more of them, and make each sample cheaper. A step then takes at least as long as
    the rest of it, and at least the loading time divided by the number of workers. Workers that would have less than
    {percent(1 - MAX_BUSY)} of their time to spare get one more beside them.

When it is wrong
    Workers need CPU cores. If the training threads use all of them, more workers slow it down. Where the recording
    says how many cores the program may use, no more is promised than they can do.
"""

    def of_steps(self, time: CpuTime) -> Iterable[Finding]:
        if time.loading_ns < time.analysis.thresholds[MIN_SHARE] * time.step_ns:
            return
        trace, loads = time.trace, time.loading[0]
        if len(loads) < MIN_LOADS:
            return
        longest = [event for event, _ in time.shares(time.activity.inputs)][:MAX_NAMED]
        name = trace.name(longest[0])
        has_workers, is_of_torch = _OF_WORKERS in name, is_loader(name)
        steps = max(time.analysis.steps_in_window, 1)
        loading_ns, rest_ns = time.loading_ns / steps, (time.step_ns - time.loading_ns) / steps
        load = loading_ns / max(rest_ns, 1.0)
        workers = min(max(math.ceil(load - NEARLY), 1), MAX_WORKERS)
        cores = trace.capture.cores
        advised = min(workers + (load > MAX_BUSY * workers), MAX_WORKERS, cores or MAX_WORKERS)
        shared_ns = (loading_ns + rest_ns) / cores if cores is not None else 0.0
        can_go = min(loading_ns, loading_ns + rest_ns - shared_ns)
        yield self.lost(
            time,
            round(can_go * steps),
            _what(name, has_workers),
            took=time.loading_ns,
            account=(
                _in_workers(loading_ns, rest_ns)
                if has_workers
                else _in_the_main_process(loading_ns, rest_ns, workers, advised, shared_ns)
                + inside(time, time.loading)
            )
            + (_of_cores(cores) if cores is not None and can_go < loading_ns else ""),
            remedy=loaded_beside(advised, has_workers=has_workers) if is_of_torch else region_beside(name),
            culprit=culprit_of(
                time.trace,
                [] if has_workers else own_lines(time, time.loading),
                Culprit(CulpritKind.REGION, name),
            ),
            evidence=evidence_of(trace, np.array(longest, np.int64)),
            unknown=(
                "What the workers do: record one of them with py-spy record --subprocesses."
                if has_workers
                else without_stacks(
                    trace, "Which of your lines load the data: record again with Python stacks (--stacks)."
                ),
            ),
        )


def _what(name: str, has_workers: bool) -> str:
    if not is_loader(name):
        return f"The main process prepares the data itself, in {name}"
    if has_workers:
        return "Steps wait for the data loader's workers"
    return "The data loader runs in the main process"


def _in_workers(waiting_ns: float, rest_ns: float) -> str:
    whole = waiting_ns + rest_ns
    return (
        f"A step takes {duration(whole)}, of which it waits {duration(waiting_ns)} for a batch. With twice as many "
        f"workers it takes {duration(max(whole / 2, rest_ns))} or more; if a batch were always ready, "
        f"{duration(rest_ns)}."
    )


def _of_cores(cores: int) -> str:
    return f" The program may use {number_of_cores(cores)}, which workers share with it: more cores would help more."


def _in_the_main_process(
    loading_ns: float, rest_ns: float, workers: int, advised: int, shared_ns: float
) -> str:
    """``workers``: with more of them a step takes as long, where each batch takes the same time to make.

    ``shared_ns``: how long the cores that the program may use need for a step and for making its batch.
    """
    whole = loading_ns + rest_ns
    least = max(rest_ns, loading_ns / workers, shared_ns)
    alone = max(rest_ns, loading_ns, shared_ns)
    text = (
        f"A step takes {duration(whole)}. For {duration(loading_ns)} of it this thread makes the next batch; the "
        f"rest takes {duration(rest_ns)}. With one worker process a step takes {duration(alone)} or more"
    )
    if workers > 1:
        text += f", with {workers} of them {duration(least)}"
    any_number = ", with any number" if least <= rest_ns * (1 + NEARLY) else ""
    spare = (
        f" Try {advised}: {'a worker' if workers == 1 else 'workers'} with hardly any time to spare would keep steps "
        "waiting whenever a batch takes longer than usual."
    )
    return (
        f"{text}: at most {whole / max(least, 1.0):.2g} times faster{any_number}."
        f"{spare if advised > workers else ''}"
    )
