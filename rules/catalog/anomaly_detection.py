"""Autograd checks every gradient for NaN, and records a stack for every operator of the forward pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, length, subtract, union
from rules.analysis.cpu.cpu_time import CpuTime, cpu_time
from rules.analysis.names.operators import is_autograd_function
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.host_work import NO_ANOMALY_DETECTION
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.shares import MAJORITY
from rules.wording.headline import Headline
from rules.wording.phrases import of_every_step, share

MIN_FUNCTIONS = 5
MAX_OF_FORWARD = 0.95  # of the forward pass may be the recording of stacks
MAX_EVIDENCE = 3
_WITHOUT_RESULT = "AccumulateGrad"  # nothing to check
_CHECK, _CHECKS = "aten::isnan", ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::is_nonzero")


@rule
class AnomalyDetection(Rule):
    """Anomaly detection of autograd in a program on the CPU alone."""

    id = "anomaly-detection"
    category = Category.HOST_BOUND
    needs = frozenset({Need.CPU_EVENTS})
    explanation = f"""
What it found
    Only the CPU was recorded, and torch.autograd's anomaly detection is on.

Why it costs time
    Every function of the backward pass checks its gradients for NaN, and every operator of the forward pass records
    the Python stack that called it. With small tensors that takes several times as long as the computation.

How it decides
    At least {percent(MAJORITY)} of the functions of the backward pass call aten::isnan. Their checks are counted,
    and up to {percent(MAX_OF_FORWARD)} of the forward pass's operators, which contain the recording of stacks.

What to try
    Leave it off: torch.autograd.set_detect_anomaly(False). Turn it on only to find a NaN that you have seen.

When it is wrong
    If the operators of the forward pass are large: then recording stacks is a small part of them.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        time = cpu_time(analysis)
        if time is None or not time.is_all:
            return
        trace, table, operators = analysis.trace, analysis.trace.events, time.operators
        backward = operators[named(trace, operators, is_autograd_function)]
        events = time.activity.events
        asks = events[named(trace, events, _CHECK.__eq__)]
        functions = backward[~named(trace, backward, lambda name: name.endswith(_WITHOUT_RESULT))]
        checked = _holding(time, functions, asks)
        if checked < max(MIN_FUNCTIONS, MAJORITY * len(functions)):
            return
        checks = events[named(trace, events, _CHECKS.__contains__)]
        checking = clip(union(*table.spans(checks)), *time.window)
        forward = _forward(time, backward)
        stacks_ns = round(MAX_OF_FORWARD * length(forward))
        lost, steps = length(checking) + stacks_ns, max(time.steps, 1)
        yield self.finding(
            analysis,
            ceiling_ns=lost,
            headline=Headline(
                "Anomaly detection is on", f"up to {of_every_step(analysis, share(analysis, lost))}"
            ),
            account=f"{percent(checked / len(functions))} of the functions of the backward pass check their gradients "
            f"for NaN, which takes {duration(length(checking) / steps)} a step. Every operator of the forward pass "
            f"records a Python stack: up to {duration(stacks_ns / steps)} of its {duration(length(forward) / steps)}.",
            remedy=NO_ANOMALY_DETECTION,
            culprit=Culprit(CulpritKind.OPERATOR, _CHECK),
            evidence=event_evidence(trace, asks, MAX_EVIDENCE),
            unknown=("How deep the stacks are, and so how long recording one takes.",),
            confidence="medium",
        )


def _holding(time: CpuTime, around: I64, inside: I64) -> int:
    """Around how many events any of the others begins."""
    table = time.trace.events
    at = np.sort(table.start[inside])
    held = np.searchsorted(at, table.end[around]) > np.searchsorted(at, table.start[around])
    return int(np.count_nonzero(held))


def _forward(time: CpuTime, backward: I64) -> Intervals:
    """Inside operators, without the backward pass and the optimizer."""
    trace, table = time.trace, time.trace.events
    updates = time.activity.of_kind(EventKind.REGION)
    updates = updates[named(trace, updates, lambda name: "optimizer" in name.lower())]
    others = np.concatenate((backward, updates))
    return subtract(time.computing, union(*table.spans(others)))
