"""Gradients that are made smaller before ranks exchange them, which costs more than it saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from parsers.model import F64, I64, Attribute, CopyKind
from parsers.model.late import dataclass
from parsers.model.names.per_name import named
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import bus_factor, collective_columns, whole_message
from rules.findings.category import Category
from rules.fixes.backward import autograd_functions
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import (
    copies,
    first_members,
    of_nodes,
    optimizer_calls,
    per_step,
    together,
    without_calls,
)
from rules.kernels.operator_work import inputs_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Change, Replay
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

MIN_TENSORS = 4  # in a step, whose largest values are sent: fewer are no gradients of a model
BUCKET_BYTES = 25e6  # DistributedDataParallel's: the last one is reduced when the backward pass is over
_CHOOSES = "gatherTopK"  # the kernel that ends a search for the largest values
_TOP_K = "aten::topk"
_ELEMENT = 4  # bytes, where no types were recorded

_CODE = """model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
loss.backward()                                      # reduces whole gradients meanwhile
# where the network is slow: fewer bits, which cost one kernel for a bucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
model.register_comm_hook(None, default_hooks.bf16_compress_hook)"""


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """Calls of a step, ``begin`` to ``end`` (exclusive), that choose from gradients of so many bytes and send that."""

    begin: int
    end: int
    bytes: float


@fix
class SendWholeGradients:
    id = "send-whole-gradients"
    explanation = """
When it applies
    Several ranks train, and between the backward pass and the update of each step, the largest values of four or more
    tensors are searched (aten::topk), with a collective behind each. How large the tensors are must be known, by shapes
    or by copies of them.

What is changed in the replay
    All calls from the first tensor to the last are gone, with what they launch. One collective stays, which reduces
    all tensors as fast as the fastest collective of the recording sends, and beside the backward pass, but for what
    takes longer than that and the last 25 MB. At least, nothing of it overlaps.

What makes it more or less
    How fast the ranks are connected: small messages, as they were sent, show less than that. Over a slow network fewer
    bytes may pay.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        if len(replay.spans) < 2 or not (replay.device.meeting >= 0).any():
            return
        steps = list(_chosen(analysis, replay))
        rate = _bytes_for_ns(analysis, replay)
        if len(steps) < replay.steps * len(replay.spans) or not rate:
            return
        nodes = np.zeros(len(replay.host), bool)
        for each in steps:
            nodes[each.begin : each.end] = True
        whole = float(np.mean([each.bytes for each in steps]))
        takes = whole * bus_factor("allreduce", len(replay.spans)) / rate
        device = replay.device
        backward = (autograd_functions(analysis) >= 0)[device.launch] & (device.meeting < 0)
        beside = per_step(replay, float(device.duration[backward].sum()))
        left = max(takes - beside, takes * min(BUCKET_BYTES / whole, 1.0))
        spent = per_step(replay, float((replay.usual.gap + replay.usual.cost)[nodes].sum()))
        yield Proposal(
            title=(
                f"Send whole gradients: choosing their largest values tensor by tensor takes {duration(spent)} "
                f"{replay.in_step}"
            ),
            categories=(
                Category.COMMUNICATION_LATENCY,
                Category.EXPOSED_COMMUNICATION,
                Category.LAUNCH_BOUND,
            ),
            culprit="choosing from gradients",
            problem="The largest values of each gradient are chosen and sent, which takes longer than to send them all",
            remedy=remedy(
                "Let ranks that are well connected reduce whole gradients, in buckets and during the backward pass.",
                "Over a slow network, send 16 bits, or choose from all gradients at once, as one flattened tensor.",
                code=for_pytorch(_CODE),
            ),
            expected=_reduced(replay, steps, left),
            low=_reduced(replay, steps, takes),
            depends_on="how fast the ranks are connected, and how much overlaps with the backward pass",
        )


def _chosen(analysis: Analysis, replay: Replay) -> Iterator[_Chosen]:
    host, device = replay.host, replay.device
    chooses = of_nodes(replay, named(analysis.trace, device.event, lambda name: _CHOOSES in name))
    if not chooses.any():
        return
    meets = of_nodes(replay, device.meeting >= 0)
    backward, updates = autograd_functions(analysis) >= 0, optimizer_calls(analysis)
    amount = _bytes_chosen_from(analysis, replay)
    of_step = host.thread * (int(host.step.max(initial=0)) + 1) + host.step
    edges = np.flatnonzero(np.concatenate(([True], np.diff(of_step) != 0, [True])))
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        gone, update = np.flatnonzero(backward[begin:end]), np.flatnonzero(updates[begin:end])
        if not len(gone) or not len(update) or update[-1] < gone[-1]:
            continue
        first = begin + int(gone[-1]) + 1
        last = begin + int(update[update > gone[-1]][0])
        found = first + np.flatnonzero(chooses[first:last])
        if len(found) < MIN_TENSORS:
            continue
        sending = np.append(first + np.flatnonzero(meets[first:last]), last)
        sent = sending[np.searchsorted(sending, found)]
        if (sent >= np.append(found[1:], last)).any():
            continue
        sizes = np.array([amount[one:sends].max() for one, sends in zip(found, sent, strict=True)])
        if (sizes > 0).all():
            each = int(np.diff(found).max())  # calls of one tensor
            yield _Chosen(
                max(first, int(found[0]) - each), min(last, int(found[-1]) + each), float(sizes.sum())
            )


def _bytes_chosen_from(analysis: Analysis, replay: Replay) -> F64:
    """How large the tensor is that each call chooses from, or copies on the GPU; 0 for others."""
    trace, host, device = analysis.trace, replay.host, replay.device
    copied = copies(replay, CopyKind.D2D)
    amount = trace.attribute(Attribute.BYTES, device.event)
    found = np.zeros(len(host))
    np.maximum.at(found, device.launch[copied], amount[copied].astype(np.float64))
    around = surroundings_of(analysis).around(_TOP_K.__eq__)
    for node in np.flatnonzero(around >= 0).tolist():
        event = int(around[node])
        dims, types = (
            trace.text_attribute(which, event) for which in (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES)
        )
        inputs = inputs_of(dims, types, _ELEMENT)
        found[node] = inputs.all_bytes if inputs else 0.0
    return found


def _bytes_for_ns(analysis: Analysis, replay: Replay) -> float:
    """What the fastest collective of the recording sent over its slowest link, bytes for each ns; 0 if unknown."""
    _, first = first_members(replay)
    kinds, kind = collective_columns(analysis.trace).kinds_of(replay.device.event[first])
    took = np.maximum(replay.recorded.transfer, 1.0)
    sent = np.array(
        [
            whole_message(each.collective, each.bytes, each.group_size)
            * bus_factor(each.collective, each.group_size)
            for each in kinds
        ]
    )
    return float((sent[kind] / took).max(initial=0.0))


def _reduced(replay: Replay, steps: list[_Chosen], ns: float) -> Change:
    """Of what these calls exchange, one collective of a step stays and takes so long; the calls are gone."""
    device = replay.device
    meeting, first = first_members(replay)
    gone, stays = np.zeros(len(replay.host), bool), np.zeros(len(replay.host), bool)
    for each in steps:
        gone[each.begin : each.end] = True
    numbers = np.flatnonzero(gone[device.launch[first]])
    launch, step = device.launch[first[numbers]], replay.host.step[device.launch[first[numbers]]]
    order = np.lexsort((launch, step))
    last: I64 = numbers[order[np.append(np.diff(step[order]) != 0, True)]]
    kept = np.isin(device.meeting, meeting[last])
    stays[device.launch[kept]] = True
    ended = np.setdiff1d(numbers, last)

    def one(overlay: Overlay) -> None:
        overlay.transfer[ended] = 0.0
        overlay.meets[ended] = False
        overlay.gap[stays] = 0.0
        overlay.transfer[last] = ns
        overlay.duration[kept] = ns

    return together(without_calls(replay, gone & ~stays), one)
