"""A program on the CPU alone that computes with 64-bit numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, I64, Attribute, Trace
from parsers.model.late.regex import regex
from parsers.model.names.per_name import named
from parsers.model.units import duration, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import CpuTime
from rules.findings.base import Category, Finding, rule
from rules.losses.cpu_rule import CpuRule, line_or_operator
from rules.losses.cpu_work import MAX_NAMED, MIN_SHARE, MIN_STEPS, named_shares
from rules.losses.lost_time import evidence_of
from rules.remedies.cpu_work import IN_SINGLE_PRECISION
from rules.wording.phrases import shortened

LEFT = 0.5  # half the bytes, and twice as many numbers in a vector register
CONVOLUTION_LEFT = 0.2  # oneDNN has no convolution in float64: one network took 4.1 to 5.5 times as long
_MANY = regex(r"[2-9]|\d\d")  # in a list of shapes: a side longer than 1
_CONVOLUTION = regex(r"aten::_?(slow_conv|thnn_conv)")


@rule
class CpuDoublePrecision(CpuRule):
    """Operators on the CPU whose tensors are float64."""

    id = "cpu-double-precision"
    category = Category.FP64
    explanation = f"""
What it found
    Only the CPU was recorded, and its operators compute with 64-bit numbers.

Why it costs time
    A vector register holds half as many of them, and each moves twice the bytes. PyTorch has no fast convolution for
    float64 at all. In deep learning it is usually an accident: NumPy's arrays are float64 by default, and one such
    tensor turns everything it touches into float64.

How it decides
    By the types of the operators' inputs, which PyTorch's profiler records with record_shapes=True; without them by
    the names of the convolutions that PyTorch falls back to, if they have a backward pass: for one small input, PyTorch
    falls back to them as well. {percent(LEFT)} of their time is taken to remain, {percent(CONVOLUTION_LEFT)} of a
    convolution's. Below {percent(MIN_SHARE)} of the step nothing is reported, nor if
    fewer than {MIN_STEPS} steps were found.

What to try
    Convert the input and the model to float32, and find out where the first float64 tensor comes from.

When it is wrong
    When the computation needs double precision, as simulations, solvers and some statistics do. Without recorded
    types, a build of PyTorch without oneDNN looks the same.
"""

    def of_steps(self, analysis: Analysis, time: CpuTime) -> Iterable[Finding]:
        trace = analysis.trace
        event, spent = time.spent(time.activity.operators, time.computing)
        types = trace.attribute(Attribute.INPUT_TYPES, event, -1)
        falls_back = named(trace, event, _CONVOLUTION.match)
        with_types = bool((types >= 0).any())
        doubles = [each for each in np.unique(types[types >= 0]).tolist() if _in_double(trace.strings[each])]
        trained = falls_back & named(trace, event, lambda name: name.endswith("backward"))
        mine = np.isin(types, doubles) & ~_of_single_numbers(trace, event)
        mine = mine if with_types else falls_back & trained.any()
        left = np.where(falls_back, CONVOLUTION_LEFT, LEFT)[mine]
        took = int(spent[mine].sum())
        saved = min(round(float((spent[mine] * (1 - left)).sum())), time.step_ns)
        if saved < MIN_SHARE * time.step_ns:
            return
        longest = time.by_name(event[mine], spent[mine])
        name = trace.name(longest[0][0])
        what = "Operators compute with 64-bit numbers" if with_types else "Convolutions take a slow path"
        why = (
            ""
            if with_types
            else " PyTorch takes this path for float64, or for one small input at a time; which numbers they are was "
            "not recorded."
        )
        yield self.lost(
            analysis,
            time,
            saved,
            what,
            took=min(took, time.step_ns),
            account=f"The longest are {named_shares(trace, longest, took)}. In float32 they would take about "
            f"{duration((took - saved) / time.steps)} of a step instead of {duration(took / time.steps)}.{why}",
            remedy=IN_SINGLE_PRECISION,
            culprit=line_or_operator(analysis, time, shortened(name, 120)),
            evidence=evidence_of(trace, np.array([each for each, _ in longest[:MAX_NAMED]], np.int64)),
            unknown=("Whether the computation needs double precision.",),
            confidence="medium" if with_types else "low",
        )


def _of_single_numbers(trace: Trace, events: I64) -> BOOL:
    """Which operators are handed no tensor of more than one element, by shapes: Python's numbers are 64-bit."""
    dims = trace.attribute(Attribute.INPUT_DIMS, events, -1)
    single = [each for each in np.unique(dims[dims >= 0]).tolist() if not _MANY.search(trace.strings[each])]
    return np.asarray(np.isin(dims, single))


def _in_double(types: str) -> bool:
    """Whether an operator's tensors are float64, by the list of its inputs' types."""
    return '"double"' in types and '"float"' not in types
