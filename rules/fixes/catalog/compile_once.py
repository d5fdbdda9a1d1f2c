"""Steps run what was compiled before, and compile nothing."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.names.compilers import is_compiling
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import less_host_time, per_step, together, without_calls
from rules.fixes.compiling import compiling_ns
from rules.fixes.host_phases import own_work
from rules.remedies.compiling import COMPILE_ONCE
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of


@fix
class CompileOnce:
    """A compiler that runs again in most steps."""

    id = "compile-once"
    explanation = """
When it applies
    In at least half of the steady steps, and at least two, a compiler runs for more than 1 ms of a step, counting all
    its phases together.

What is changed in the replay
    The compiler's CPU time is gone, and so is what it launches itself to try kernels. At most, all other CPU work of
    more than 250 us is gone too: newly compiled code being loaded on its first run.

What makes it more or less
    How much of the rest of a step is such a first run. A program compiled for all sizes is a little slower than one
    for a single size.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        compiling = compiling_ns(analysis)
        if not compiling.any():
            return
        around = surroundings_of(analysis)
        tried = around.inside(is_compiling)
        gone = together(without_calls(replay, tried), less_host_time(compiling > 0, compiling))
        taken = per_step(replay, float(compiling.sum() + replay.host.cost[tried].sum()))
        yield Proposal(
            title=f"Compile once: the compiler runs again in most steps, {duration(taken)} {replay.in_step}",
            categories=(Category.RECOMPILATION, Category.HOST_BOUND),
            culprit="torch.compile",
            remedy=COMPILE_ONCE,
            expected=gone,
            high=together(gone, less_host_time(compiling >= 0, own_work(replay, around))),
            depends_on="how much of the rest of a step is the first run of newly compiled code",
        )
