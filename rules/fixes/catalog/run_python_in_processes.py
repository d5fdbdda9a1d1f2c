"""What other threads do in plain Python is done by other processes, so that the launching thread has the lock."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.lock_waits import busiest_frame, lock_waits
from rules.analysis.names.host_language import is_python
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, most_per_step
from rules.remedies.host_work import PROCESSES_FOR_THREADS
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.phrases import shortened

MIN_SHARE = 0.02  # of the step
WAITED_AT_LEAST = 0.7  # of the time is gone: some of it may be a wait for what those threads make


@fix
class RunPythonInProcesses:
    """Threads of one Python that take turns."""

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
        each = most_per_step(replay, waited)
        if each < MIN_SHARE * replay.usual_ns or not is_python(analysis.trace):
            return
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
