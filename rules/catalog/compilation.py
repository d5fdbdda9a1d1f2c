"""Programs that are compiled or replayed as graphs: compiled again and again, broken apart, made of short kernels."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import EventKind
from parsers.model.arrays import median_of
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations, pairs, union
from rules.analysis.gpu.inside_window import operations
from rules.analysis.logs.compilations import (
    BrokenGraph,
    CompiledFunction,
    broken_at,
    broken_graphs,
    compiled_functions,
    compiling,
)
from rules.findings.base import Category, Finding, Need, Rule, Severity, remedy, rule, severity_of
from rules.losses.lost_time import between_nodes, evidence_of
from rules.remedies.compiling import advice_on, not_again
from rules.remedies.launching import FUSED_IN_GRAPH
from rules.terms import Culprit, CulpritKind, SourceLine
from rules.wording.compilations import why
from rules.wording.words import Headline, counted, short_place, shortened

MAX_LISTED, MAX_SHOWN = 3, 20  # functions, and compilations of each
MAX_NAME_LENGTH = 40  # characters in a title
# torch._dynamo.config.recompile_limit: with so many versions the function runs uncompiled
RECOMPILE_LIMIT = 8


@rule
class CompiledAgain(Rule):
    id = "compiled-again"
    category = Category.RECOMPILATION
    needs = frozenset({Need.COMPILER_LOG})
    explanation = f"""
What it found
    torch.compile compiled a function again, because a condition of the earlier compilation no longer held: a size, a
    number, a type, the gradient mode.

Why it costs time
    Each compilation takes seconds in which the step stands still. With {RECOMPILE_LIMIT} versions of a function the
    compiler gives up, and the function runs as slowly as without it.

How it decides
    From the compiler's log (TORCH_TRACE, TORCH_LOGS): a compilation with a reason why an earlier one did not apply.
    The ceiling is the time these took, if the log states it.

What to try
    Whatever the reason names: mark sizes as dynamic or pad them, put numbers in tensors, use one mode for each copy.

When it is wrong
    Two or three versions of a function can be legitimate, as for training and evaluation. Compilation at the start of
    a long run is paid for only once.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        again = [each for each in compiled_functions(analysis.trace) if each.reasons]
        for each in again[:MAX_LISTED]:
            yield self._finding(analysis, each, len(again))

    def _finding(self, analysis: Analysis, function: CompiledFunction, count: int) -> Finding:
        trace, times = analysis.trace, len(function.reasons)
        events = compiling(trace)
        mine = events[named(trace, events, lambda name: name == function.event_name)][-times:]
        spent = union(*trace.events.spans(mine))
        window = max(trace.duration, 1)
        ceiling = min(function.again_ns or 0, window)
        gives_up = times >= RECOMPILE_LIMIT
        return self.finding(
            analysis,
            severity=Severity.HIGH if gives_up else severity_of(ceiling, window),
            headline=Headline(
                f"{shortened(function.shown, MAX_NAME_LENGTH)} was recompiled {_times(times)}",
                names_culprit=True,
            ),
            account=_account(function, count, gives_up),
            remedy=not_again(function.reasons),
            ceiling_ns=ceiling,
            window_ns=window,
            culprit=Culprit(
                CulpritKind.FRAME,
                f"{function.shown}, {short_place(function.place)}",
                at=SourceLine.of(function.place, function.own_name, is_call=function.is_resumed),
            ),
            because=f"{shortened(why(function.reasons[0]), 100)}.",
            evidence=evidence_of(trace, mine[:MAX_SHOWN]),
            intervals=pairs(spent),
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _account(function: CompiledFunction, count: int, gives_up: bool) -> str:
    took = "" if function.again_ns is None else f" That took {duration(function.again_ns)}."
    text = (
        f"{function.shown} ({short_place(function.place)}) was recompiled {_times(len(function.reasons))}, because "
        f"{why(function.reasons[0])}.{took}"
    )
    different = len(set(map(advice_on, function.reasons)))
    if different > 1:
        text += f" There were {different} different reasons; the last: {why(function.reasons[-1])}."
    if function.processes > 1:
        text += f" {function.processes} processes compiled it again; the times are those of the slowest."
    if gives_up and len(function.reasons) == RECOMPILE_LIMIT:
        text += f" The compiler gives up at {RECOMPILE_LIMIT} versions: from then on it runs uncompiled."
    return text if count == 1 else f"{text} {count} functions were recompiled in all."


_CODE = """step = torch.compile(step, fullgraph=True)    # says at once where a graph would break
y = torch.where(y.sum() > 0, y + 1, y)        # a branch that depends on data, as one operation"""


@rule
class GraphBreaks(Rule):
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


@rule
class ShortKernelsInGraph(Rule):
    id = "short-kernels-in-graph"
    category = Category.LAUNCH_BOUND
    needs = frozenset({Need.GPU_EVENTS})
    explanation = """
What it found
    A CUDA graph, or another launch of many kernels at once, whose kernels are so short that much of the time passes
    between them.

Why it costs time
    A graph takes the launches from the CPU. The GPU still starts one kernel after another, about a microsecond each.

How it decides
    It takes the gaps between kernels of one launch that are too short to be a wait. They must take 15 % of the time.

What to try
    Fewer, longer kernels: fuse neighbours (torch.compile, a kernel of your own), or give each more work with a larger
    batch. Kernels that do not depend on each other can be captured on several streams, and then run side by side.

When it is wrong
    If the gaps come from recording each kernel of a graph, which makes them longer.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        waiting, ns = between_nodes(analysis)
        if not ns:
            return
        kernels = operations(analysis, waiting.device, EventKind.KERNEL)
        usual = duration(float(median_of(durations(analysis.trace, kernels))))
        gap = duration(ns / max(len(waiting.rows), 1))
        yield self.finding(
            analysis,
            headline=Headline("The kernels of a graph are too short", waiting.extent.share(ns)),
            account=f"{counted(analysis, len(kernels), 'kernel', verb='run')}, usually {usual} each, and the GPU needs "
            f"{gap} from one to the next: {waiting.extent.part(ns)} pass between kernels that were launched together.",
            remedy=FUSED_IN_GRAPH,
            ceiling_ns=ns,
            culprit=waiting.culprit,
            device=waiting.device,
            evidence=waiting.evidence(),
            unknown=(
                "How much of it is the profiler's, which looks at every kernel of a graph: compare with a run without "
                "it.",
            ),
            confidence="medium",
        )
