"""torch.compile gives up a graph in the middle of a function, and goes on behind it with another one."""

from __future__ import annotations

from collections.abc import Iterable

from rules.analysis.analysis import Analysis
from rules.analysis.logs.compilations import BrokenGraph, broken_at, broken_graphs
from rules.findings.base import Category, Finding, Need, Rule, Severity, remedy, rule
from rules.losses.lost_time import evidence_of
from rules.terms.culprit import Culprit, CulpritKind, SourceLine
from rules.wording.headline import Headline
from rules.wording.phrases import short_place, shortened

MAX_LISTED, MAX_SHOWN = 3, 20  # places, and breaks at each
MAX_NAME_LENGTH = 40  # characters in a title
_CODE = """step = torch.compile(step, fullgraph=True)    # says at once where a graph would break
y = torch.where(y.sum() > 0, y + 1, y)        # a branch that depends on data, as one operation"""


@rule
class GraphBreaks(Rule):
    """Speaks of the places at which graphs break most often."""

    id = "graph-breaks"
    category = Category.GRAPH_BREAK
    needs = frozenset({Need.COMPILER_LOG})
    explanation = """
What it found
    torch.compile could not compile past a line, so the function became several graphs with plain Python between them.

Why it costs time
    Nothing is fused across a break, tensors go through memory there, and Python runs between the graphs. A break
    inside a loop or a layer is repeated for each of them.

How it decides
    From the compiler's log (TORCH_TRACE, TORCH_LOGS): each place with its reason, the most frequent first. The log
    shows how often graphs broke during compilation, not what that costs.

What to try
    Whatever the compiler suggests for the reason; branches on data as torch.where or torch.cond, prints and logging
    outside the compiled code, .item() later.

When it is wrong
    A break between two large graphs, or in a function that runs once, costs nothing measurable.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        breaks = broken_graphs(analysis.trace)
        for each in breaks[:MAX_LISTED]:
            yield self._finding(analysis, each, len(breaks))

    def _finding(self, analysis: Analysis, broken: BrokenGraph, count: int) -> Finding:
        place = short_place(broken.place)
        times = "" if broken.times == 1 else f", in {broken.times:,} compilations"
        rest = f" Graphs break at {count} places in all." if count > 1 else ""
        return self.finding(
            analysis,
            severity=Severity.LOW,
            headline=Headline(f"Graph break at {place}", shortened(broken.reason, MAX_NAME_LENGTH)),
            account=f"The graph breaks at {broken.place}{times}: {broken.reason.rstrip('.')}.{rest}",
            remedy=remedy(
                *((broken.hint,) if broken.hint else ()),
                "Move the code that cannot be compiled out of the function, or out of the loop it is in.",
                code=_CODE,
            ),
            window_ns=analysis.trace.duration,
            culprit=Culprit(CulpritKind.FRAME, place, at=SourceLine.of(broken.place)),
            because=f"{broken.reason.rstrip('.')}.",
            evidence=evidence_of(analysis.trace, broken_at(analysis.trace, broken.place)[:MAX_SHOWN]),
            unknown=("What the break costs: record the run with torch.profiler, and open both together.",),
        )
