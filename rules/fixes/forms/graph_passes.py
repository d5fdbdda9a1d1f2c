"""The passes of a training inside a CUDA graph, by the names of its kernels: which forward work is done again."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import F64, I64, rows_by
from parsers.model.late import regex
from parsers.model.names.per_name import numbers_of
from rules.analysis.analysis import Analysis
from rules.replay.replay import Replay
from rules.terms import MAJORITY

MIN_LAYERS = 4  # kernels of the forward pass: of fewer nobody knows whether they come again
_BACKWARD = regex(r"backward|_bwd|bprop|grad_input|_bw_")
_FORWARD = regex(
    r"softmax_?(warp_)?forward|_fwd|sdpa\w*fprop|layer_norm_kernel|rms_norm_kernel|gelucudakernel|silu_kernel"
)
_OTHER, _AHEAD, _BACK = range(3)


def computed_again_in_graphs(analysis: Analysis, replay: Replay) -> F64:
    """For each operation of a replay the part of its time in which a graph computes its forward pass again.

    Kernels of the forward pass then come once before the first one of the backward pass, and again between those.
    """
    trace, device = analysis.trace, replay.device
    found = np.zeros(len(device))
    of_graphs = np.flatnonzero(
        np.bincount(device.member_of, minlength=len(device))[device.member_of] > MIN_LAYERS
    )
    members, owner = device.members[of_graphs], device.member_of[of_graphs]
    kinds = numbers_of(trace, members, _kind)
    for node, rows in rows_by(owner):
        order = rows[np.argsort(trace.events.start[members[rows]], kind="stable")]
        found[node] = _again(kinds[order], trace.events.duration[members[order]].astype(np.float64))
    return found


def _kind(name: str) -> int:
    plain = name.lower()
    return _BACK if _BACKWARD.search(plain) else _AHEAD if _FORWARD.search(plain) else _OTHER


def _again(kinds: I64, took: F64) -> float:
    ahead, back = (np.flatnonzero(kinds == kind) for kind in (_AHEAD, _BACK))
    if not len(back):
        return 0.0
    first, later = ahead[ahead < back[0]], ahead[ahead > back[0]]
    if len(first) < MIN_LAYERS or len(later) < MAJORITY * len(first):
        return 0.0
    in_a_row = np.bincount(np.searchsorted(back, later)).max()
    if in_a_row > MAJORITY * len(first):  # the forward pass of another micro-batch
        return 0.0
    once = took[first[0] : first[-1] + 1].sum()
    return float(min(once * len(later) / len(first), took[back[0] :].sum()) / max(took.sum(), 1.0))
