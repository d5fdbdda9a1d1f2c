"""How compilations are spoken of: why a function was compiled again, a log in one line."""

from __future__ import annotations

from parsers.model import Trace
from parsers.model.units import duration, how_many
from rules.analysis.arithmetic.intervals import length, union
from rules.analysis.logs.compilations import broken_graphs, compiled_functions, compiling, failures
from rules.wording.words import shortened


def why(reason: str) -> str:
    """A reason as part of a sentence: what the compiler states is a condition, or what is wrong with one."""
    bare = reason.rstrip(".")
    return f"{bare} no longer held" if "==" in bare else bare


def of_compiler_log(trace: Trace) -> str:
    """One sentence on a log that stands alone; empty without one."""
    functions, breaks = compiled_functions(trace), broken_graphs(trace)
    if not functions and not breaks:
        return ""
    parts = []
    if events := compiling(trace).tolist():
        spent = length(union(*trace.events.spans(events)))
        parts.append(f"{how_many(len(events), 'compilation')} in {duration(spent)}")
    if again := sum(len(each.reasons) for each in functions):
        parts.append(f"{again:,} of them again" if events else how_many(again, "recompilation"))
    if failed := failures(trace):
        reason = shortened(failed[0].rstrip(":. "))
        parts.append(
            f"{len(failed):,} of them failed: {reason}" if events else f"{len(failed):,} failed: {reason}"
        )
    if breaks:
        parts.append(f"graphs break at {how_many(len(breaks), 'place')}")
    return f"torch.compile: {', '.join(parts)}" if parts else ""
