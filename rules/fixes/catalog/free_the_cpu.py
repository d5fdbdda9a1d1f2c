"""The thread that launches keeps its CPU."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import less_host_time, most_per_step
from rules.fixes.interrupted import interrupted_ns, interruptions_in_a_step
from rules.replay.replay import Replay
from rules.wording.words import for_python, for_pytorch

_CODE = """import os, torch
print(len(os.sched_getaffinity(0)), "CPUs for this process,", torch.get_num_threads(), "threads of torch")
torch.set_num_threads(4)     # for each process; loader workers have one each
# and, for each rank, cores of its own:  taskset --cpu-list 0-7 python train.py"""


@fix
class FreeTheCpu:
    """Pauses of the launching thread at places that change from step to step."""

    id = "free-the-cpu"
    explanation = """
When it applies
    In steps with the same calls, the launching thread stalls for 1 ms or more at places where it does not in most
    others, at least twice per step, for 5 % of the steps or more.

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
