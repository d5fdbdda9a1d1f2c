"""Host work beside the launches: loading, other processes and cores, garbage that is collected, memory that is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, derived
from parsers.model.arrays import distinct_values
from parsers.model.names.calls import Call
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.interruptions import busiest_frame, lock_waits
from rules.analysis.names.host_language import Audience, is_python, program_of
from rules.analysis.names.software import names_that_ran
from rules.analysis.stretches.worker_starts import OF_WORKERS
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import less_host_time, most_per_step, per_step, together, without_waiting
from rules.fixes.interrupted import interrupted_ns, interruptions_in_a_step
from rules.losses.first_memory import is_kept_from_now_on
from rules.remedies.host_work import COLLECT_SELDOM, PROCESSES_FOR_THREADS
from rules.remedies.memory import NEVER_GIVEN_BACK, kept_memory
from rules.remedies.waiting import PERSISTENT_WORKERS, prepared_input
from rules.replay.given_back import empties_cache, given_back_beside
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_python, for_pytorch, number_of_cores, shortened

FETCH_NS = 300_000.0  # what taking a finished batch from a worker costs: docs/predictions.md
# workers, as far as they help each other and nothing else: they share cores, the link to the data and the main process
LIKELY, FEWEST = 4, 2
TIMES_MORE = 2  # workers where some are there already


@fix
class LoadDataInWorkers:
    id = "load-data-in-workers"
    switches = ("num-workers", "persistent-workers", "prefetch-factor", "same-batch")
    explanation = """
When it applies
    The step's thread spends time inside a data loader, or in a range named like one.

What is changed in the replay
    That time shrinks to the 0.3 ms it takes to fetch a finished batch, or to what is left if four workers, or twice as
    many as there are, make batches more slowly than the rest of a step uses them. Where the recording says how many
    cores the program may use, loading and the rest of a step share them.

What makes it more or less
    How many workers there are, and whether they can read fast enough: from two workers to as many as are needed.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        loading = around.input_ns
        nodes = loading > FETCH_NS
        if not nodes.any():
            return
        hidden = np.maximum(loading - FETCH_NS, 0.0)
        workers = any(OF_WORKERS in name for name in names_that_ran(analysis.trace))
        what = "Let more workers load the data" if workers else "Load the data in other processes"
        rest = replay.time([less_host_time(nodes, hidden)])
        load = replay.usual_ns - rest  # of a step; workers that are there already deliver one batch a step
        made = replay.usual_ns if workers else load
        cores = analysis.trace.capture.cores

        def hides(count: float) -> float:
            """The part of the loading that so many workers do meanwhile, on cores that they share with the step."""
            least = max(made / count, (made + rest) / (cores or math.inf))
            return max(1.0 - max(least - rest, 0.0) / max(load, 1.0), 0.0)

        likely, few = (TIMES_MORE, TIMES_MORE) if workers else (LIKELY, FEWEST)
        yield Proposal(
            title=f"{what}: loading a batch takes {duration(most_per_step(replay, loading))} {replay.in_step}",
            categories=(Category.INPUT_BOUND,),
            culprit="data loader",
            remedy=prepared_input("", loader=True, workers=workers).and_then(
                "Do constant work once: tokenise or decode the dataset beforehand."
            ),
            expected=less_host_time(nodes, hidden, hides(likely)),
            low=less_host_time(nodes, hidden, hides(few)) if hides(few) < hides(likely) else None,
            high=less_host_time(nodes, hidden, hides(math.inf)) if hides(likely) < hides(math.inf) else None,
            depends_on="how many workers can load at once without slowing each other down"
            if cores is None
            else f"how well workers and the program share {number_of_cores(cores)}",
        )


LIKELY_SOONER = 0.5  # of what the first batch of a pass takes: workers that run already begin it at once


@fix
class KeepWorkers:
    id = "keep-workers"
    switches = ("persistent-workers",)
    explanation = """
When it applies
    A DataLoader's workers start in the replayed steps: PyTorch draws a seed for them, records nothing while their
    processes start, and then fetches the first batch. Without persistent_workers that happens in each pass over the
    data, for a validation set as well.

What is changed in the replay
    The time to end the old workers and to start new ones is gone, and half of the time for the first batch. Where a
    pass is left before its end, the workers end while nothing is recorded right before the next start, for no longer
    than that start.

What makes it more or less
    How much of the time for the first batch is the start of the workers, and how much the batch itself: from none of
    it to all of it is gone.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        around = surroundings_of(analysis)
        processes, batches = around.worker_starts_ns, around.first_batches_ns
        nodes = processes + batches > 0
        if not nodes.any():
            return
        taken = most_per_step(replay, processes + batches)
        yield Proposal(
            title=f"Keep the data loader's workers alive: starting them anew takes {duration(taken)} {replay.in_step}",
            categories=(Category.INPUT_BOUND, Category.HOST_BOUND, Category.VARIABILITY),
            culprit="data loader",
            remedy=PERSISTENT_WORKERS,
            expected=less_host_time(nodes, processes + LIKELY_SOONER * batches),
            low=less_host_time(nodes, processes),
            high=less_host_time(nodes, processes + batches),
            depends_on="how long the first batch takes once the workers run",
        )


_CODE = """import os, torch
print(len(os.sched_getaffinity(0)), "CPUs for this process,", torch.get_num_threads(), "threads of torch")
torch.set_num_threads(4)     # for each process; loader workers have one each
# and, for each rank, cores of its own:  taskset --cpu-list 0-7 python train.py"""


@fix
class FreeTheCpu:
    id = "free-the-cpu"
    explanation = """
When it applies
    In steps with the same calls, or in the layers of a single step, the launching thread stalls for 1 ms or more at
    places where it does not in most others, at least twice per step, for 5 % of the steps or more.

What is changed in the replay
    These pauses are gone. Everything else is replayed.

What makes it more or less
    What else is using the CPU: another program, more threads than cores, or a container limit. Waiting for a lock or
    for memory pages looks the same.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        stopped = interrupted_ns(analysis)
        if not stopped.any():
            return
        often = interruptions_in_a_step(analysis)
        yield Proposal(
            title=(
                f"Give the program its own CPU cores: it stalls {often:.0f} times {replay.in_step}, "
                f"{duration(most_per_step(replay, stopped))}, at places that change"
            ),
            categories=(Category.LAUNCH_BOUND, Category.HOST_BOUND),
            culprit="the CPU",
            remedy=remedy(
                "Check what else runs on these cores (top, pidstat -t 1), and the container's limit (nr_throttled "
                "in cpu.stat of its cgroup).",
                "Give each process its own cores (taskset, numactl, --cpus-per-task), on the same side as its GPU.",
                for_pytorch(
                    "Start fewer threads: torch.set_num_threads, OMP_NUM_THREADS and num_workers together should "
                    "not exceed the cores."
                ),
                for_python("Count the threads of all libraries: OMP_NUM_THREADS limits most of them."),
                code=for_pytorch(_CODE),
            ),
            expected=less_host_time(stopped > 0, stopped),
            depends_on="whether something else is using the CPU meanwhile, or the program waits for a lock",
        )


WAITED_AT_LEAST = 0.7  # of the time is gone: some of it may be a wait for what those threads make


@fix
class RunPythonInProcesses:
    id = "run-python-in-processes"
    switches = ("num-workers",)
    explanation = """
When it applies
    The launching thread stands still while other threads of its process run Python: in recordings with stacks they go
    from frame to frame and it does not; Nsight Systems with osrt records its waits for the GIL, of 5 ms each. A
    recording with neither cannot tell this from other CPU work.

What is changed in the replay
    These waits are gone; all other CPU work stays.

What makes it more or less
    Part of a wait may be for what those threads produce: then they must also be fast enough in processes.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        waited = surroundings_of(analysis).lock_ns
        if not waited.any() or not is_python(analysis.trace):
            return
        each = most_per_step(replay, waited)
        nodes = waited > 0
        members = replay.host.members[int(replay.host.thread[np.argmax(waited)])]
        who = busiest_frame(analysis, members, lock_waits(analysis, members))
        doing = f"that run {shortened(who)}" if who else "beside it"
        yield Proposal(
            title=(
                f"Move the Python threads {doing} into processes: the launching thread waits {duration(each)} for "
                f"the GIL {replay.in_step}"
            ),
            categories=(Category.HOST_BOUND, Category.LAUNCH_BOUND),
            culprit=who or "the GIL",
            remedy=PROCESSES_FOR_THREADS,
            expected=less_host_time(nodes, waited),
            low=less_host_time(nodes, waited * WAITED_AT_LEAST),
            depends_on="how much of it is waiting for what those threads produce",
        )


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
    outside of them, the program empties the cache. Where its cache only grows and nothing repeats in the recording,
    it asks once.

What is changed in the replay
    These calls are gone, and nothing waits for the GPU to free memory.

What makes it more or less
    How much the profiler adds to each call. Allocation forced by a model near the GPU's memory limit ends only with
    smaller tensors.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = (replay.host.call == Call.ALLOCATE) & ~given_back(analysis)
        if not nodes.any() or is_kept_from_now_on(analysis, int(replay.device.device[0])):
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
