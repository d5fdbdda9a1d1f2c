"""Waits in which a library plans anew: cuDNN or MIOpen meets a shape for the first time, chooses and builds kernels."""

from __future__ import annotations

import re

import numpy as np

from parsers.model import EventKind
from parsers.model.arrays import median_of
from parsers.model.late import dataclass, regex
from parsers.model.names.calls import Call, call_of
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.steps.first_use import LONG_CALL_NS
from rules.losses.lost_time import IdleTime
from rules.terms import MAJORITY, CulpritKind

_OPERATORS = regex(r"^aten::(_?cudnn_|_scaled_dot_product_cudnn|miopen_)")  # keep a plan for each shape
_GENERATED = regex(r"^(void )?cudnn_generated_")
_ATTENTION = regex(r"sdpa|attention|fmha", re.IGNORECASE)
_SLOWER = 20.0  # times a usual call: a call that finds its plan is hundreds of times faster
_MIN_SLOW_STEPS = 3


@dataclass(frozen=True, slots=True)
class PlanBuilding:
    """``who`` builds a plan; ``operator`` where one was recorded; how often, the median ns, those of other calls."""

    who: str
    operator: str
    count: int
    each_ns: int
    others: int = 0
    others_ns: int = 0

    @property
    def taken(self) -> str:
        """What it takes, as findings and fixes say it."""
        return f"{duration(self.each_ns)} in each of {self.count} {'calls' if self.operator else 'waits'}"

    @property
    def text(self) -> str:
        """A sentence or two that follow others."""
        if self.operator:
            others = f"{duration(self.others_ns)} in the {self.others:,} others"
            seen = f" {self.operator} takes {self.taken} and {others}"
        else:
            each = duration(self.each_ns)
            seen = f" {self.count} waits of {each} end with newly loaded code and a kernel of {self.who}"
        return f"{seen}: it builds a new plan for each new shape, such as a prompt of a new length."

    @property
    def is_of_attention(self) -> bool:
        return _ATTENTION.search(f"{self.operator} {self.who}") is not None


def plan_building(waiting: IdleTime) -> PlanBuilding | None:
    """What builds plans, where that is most of the time that a GPU waits for its host; None otherwise."""
    if waiting.culprit.kind is CulpritKind.OPERATOR:
        return _by_operator(waiting) if _OPERATORS.match(waiting.culprit.name) else None
    return _by_loaded_code(waiting)


def _by_operator(waiting: IdleTime) -> PlanBuilding | None:
    """Calls of one operator that take far longer than its others."""
    trace, name = waiting.analysis.trace, waiting.culprit.name
    calls = trace.events.of_kind(EventKind.CPU_OP)
    calls = calls[named(trace, calls, lambda each: each == name)]
    taken = durations(trace, calls)
    usual = float(median_of(taken)) if len(taken) else 0.0
    slow = taken >= max(LONG_CALL_NS, _SLOWER * usual)
    if np.count_nonzero(slow) < _MIN_SLOW_STEPS or taken[slow].sum() < MAJORITY * waiting.worst_ns:
        return None
    others = taken[~slow]
    return PlanBuilding(
        "cuDNN" if "cudnn" in name else "MIOpen",
        name,
        int(slow.sum()),
        int(median_of(taken[slow])),
        len(others),
        int(median_of(others)),
    )


def _by_loaded_code(waiting: IdleTime) -> PlanBuilding | None:
    """Waits in which code is loaded, followed by a kernel that cuDNN generated: for recordings without operators."""
    trace, idle, rows = waiting.analysis.trace, waiting.analysis.idle, waiting.rows
    rows = rows[idle.end[rows] - idle.start[rows] >= LONG_CALL_NS]
    calls = trace.events.of_kind(EventKind.API)
    calls = calls[named(trace, calls, lambda each: call_of(each) is Call.LOAD)]
    loads = np.sort(trace.events.start[calls])
    operations = trace.operations_of_device(waiting.device)
    kernels = operations[trace.events.kind[operations] == EventKind.KERNEL]
    if not len(rows) or not len(loads) or not len(kernels):
        return None
    loaded = np.searchsorted(loads, idle.end[rows]) > np.searchsorted(loads, idle.start[rows])
    after = np.searchsorted(trace.events.start[kernels], idle.end[rows])
    following = kernels[np.minimum(after, len(kernels) - 1)]
    generated = named(trace, following, lambda each: _GENERATED.match(each) is not None)
    built = loaded & generated & (after < len(kernels))
    taken = (idle.end[rows] - idle.start[rows])[built]
    if len(taken) < _MIN_SLOW_STEPS or taken.sum() < MAJORITY * waiting.worst_ns:
        return None
    attention = named(trace, following[built], lambda each: _ATTENTION.search(each) is not None)
    who = "cuDNN's attention" if attention.all() else "cuDNN"
    return PlanBuilding(who, "", len(taken), int(median_of(taken)))
