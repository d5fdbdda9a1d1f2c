"""How compilations are spoken of: places without folders, why a function was compiled again, a log in one line."""

from __future__ import annotations

import re

from parsers.model import Trace
from parsers.model.units import duration
from rules.analysis.arithmetic.intervals import length, union
from rules.analysis.facts.compilations import broken_graphs, compiled_functions, compiling

_ADVICE = (
    (
        re.compile(r"size mismatch|stride mismatch|\.size\(|\.shape|size\("),
        "Sizes differ from call to call: say so (torch._dynamo.mark_dynamic(x, 0), or torch.compile(dynamic=True)), or "
        "pad to a few sizes.",
    ),
    (
        re.compile(r"grad_mode|GradMode|requires_grad|inference_mode"),
        "Call it in one mode of gradients only, or compile a copy for each: training and evaluation differ.",
    ),
    (
        re.compile(r"dtype|dispatch key|device"),
        "Call it with one type and device, or compile a copy for each.",
    ),
    (
        re.compile(r"check_(obj_)?id|check_type_id|object|___check"),
        "It meets another object in each call: make it once, outside of what is compiled.",
    ),
    (
        re.compile(r"=="),
        "A number that changes is built into the code: hold it in a tensor, or keep it the same.",
    ),
)


def advice_on(reason: str) -> str:
    """What to change so that a function is not compiled again for such a reason."""
    return next(
        (advice for pattern, advice in _ADVICE if pattern.search(reason)),
        "Keep what the reason names the same from call to call.",
    )


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
        spent = length(union(trace.events.start[events], trace.events.end[events]))
        parts.append(f"{_counted(len(events), 'compilation')} in {duration(spent)}")
    if again := sum(len(each.reasons) for each in functions):
        parts.append(f"{again:,} of them again" if events else _counted(again, "recompilation"))
    if breaks:
        parts.append(f"graphs break at {_counted(len(breaks), 'place')}")
    return f"torch.compile: {', '.join(parts)}" if parts else ""


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
