"""What to change about communication that stands alone, by what is sent: gradients, shards, tokens, activations."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.facts.software import names_that_ran
from rules.analysis.facts.training import is_training
from rules.analysis.ranks.collectives import CollectiveColumns
from rules.wording.words import Words, for_python, ours

SMALL_BYTES = 1_000_000  # below this the latency is most of a collective

MANY = 8  # collectives a step: gradients travel in fewer, sums of split layers in two for each layer


@dataclass(frozen=True, slots=True)
class Remedy:
    """Sentences that say what to try, and code that shows it."""

    advice: tuple[Words, ...]
    code: str


BESIDE_COMPUTATION = (
    "Start each transfer on a stream of its own as soon as its data is there, and compute meanwhile."
)


_DDP_CODE = """model = torch.nn.parallel.DistributedDataParallel(
    model,
    device_ids=[local_rank],
    bucket_cap_mb=25,              # several buckets: the first is reduced while backward computes the rest
    gradient_as_bucket_view=True,
    static_graph=True,
)"""
_HALVES_CODE = """work = dist.all_to_all_single(received, tokens, async_op=True)   # one half of the batch travels
out = shared_expert(other_half)                                   # while the other half is computed
work.wait()                                                       # all_reduce and all_gather likewise"""
_RING_CODE = """pair = [dist.P2POp(dist.isend, block, following), dist.P2POp(dist.irecv, upcoming, previous)]
requests = dist.batch_isend_irecv(pair)     # the next piece travels
out = compute(block)                        # while this one is used
for request in requests:
    request.wait()"""

_OF_GRADIENTS = Remedy(
    (
        for_python(
            "Reduce gradients in several buckets while backward still runs: DistributedDataParallel(bucket_cap_mb=25), "
            "not one all-reduce after it."
        ),
        for_python(
            "Reduce less often (gradient accumulation with model.no_sync()) or less data (bf16 compression hook)."
        ),
    ),
    _DDP_CODE,
)
_OF_SHARDS = Remedy(
    (
        "Let FSDP fetch the next layer's parameters earlier: forward_prefetch=True, "
        "backward_prefetch=BackwardPrefetch.BACKWARD_PRE.",
        "Wrap larger units (auto_wrap_policy), so that each transfer is larger and covered by more computation.",
        "Shard inside a node only (HYBRID_SHARD) when the links between nodes are slow.",
    ),
    _DDP_CODE,
)
_OF_SMALL_MESSAGES = Remedy(
    (
        for_python(
            "The messages are small: join them (larger buckets, one flattened tensor), or hide them in computation."
        ),
        ours(
            "Capture computation and communication as one $CUDA graph, so that no rank is late in launching them."
        ),
    ),
    _DDP_CODE,
)
_TABLES_CODE = """pipeline = torchrec.distributed.TrainPipelineSparseDist(model, optimizer, device)
for _ in range(steps):
    pipeline.progress(batches)     # sends the next batch's embeddings while this batch computes"""

_OF_TABLES = Remedy(
    (
        for_python(
            "Exchange the embeddings of the next batch while this one computes: TorchRec's TrainPipelineSparseDist."
        ),
        "Spread the embedding tables evenly over the ranks: everybody waits for the one that has most to look up.",
        "Send less: embeddings and their gradients in 16 or 8 bits.",
    ),
    _TABLES_CODE,
)
_OF_ACTIVATIONS = Remedy(
    (
        for_python(
            "Where layers are split over GPUs (tensor parallel), every layer waits for these sums: use only as many "
            "GPUs for one model as its memory needs, and serve copies of it instead."
        ),
        for_python(
            "Use the serving engine's own all-reduce inside a node, and hide it behind the other half of the batch."
        ),
    ),
    _HALVES_CODE,
)
_OF_EXPERTS = Remedy(
    (
        for_python(
            "Compute what needs no exchanged tokens meanwhile: shared experts, or the other half of the batch (two "
            "micro-batches that take turns)."
        ),
        "Send less: 8-bit or 16-bit tokens, fewer experts for each token, experts of one token inside one node.",
        "Spread the tokens evenly: everybody waits for the busiest expert.",
    ),
    _HALVES_CODE,
)
_OF_NEIGHBOURS = Remedy(
    (
        for_python(
            "In a pipeline a stage waits here for its neighbour: use more micro-batches, an interleaved schedule, and "
            "stages of equal work."
        ),
        for_python(
            "Where pieces travel around a ring or between experts, start the next transfer (batch_isend_irecv on a "
            "stream of its own) before computing on this one."
        ),
    ),
    _RING_CODE,
)

_TOKENS = re.compile(r"all_?(to|2)_?all", re.IGNORECASE)
_TABLES = re.compile(r"All2All_Pooled|all2all_data|alltoall_fwd_single|torchrec|\bKJT|kjt ", re.IGNORECASE)
_SHARDS = re.compile(r"_?(all_?gather|reduce_?scatter)", re.IGNORECASE)
_NEIGHBOURS = re.compile(r"send|recv", re.IGNORECASE)


def communication_remedy(analysis: Analysis, columns: CollectiveColumns, device: int) -> Remedy:
    """By the collective that takes most of the time on a device inside the window."""
    t0, t1 = analysis.window
    inside = (columns.device == device) & (columns.end > t0) & (columns.start < t1)
    time: dict[str, int] = {}
    rows = np.flatnonzero(inside)
    for row, took in zip(rows.tolist(), (columns.end - columns.start)[rows].tolist(), strict=True):
        kind = columns.collective[row]
        time[kind] = time.get(kind, 0) + took
    longest = max(sorted(time), key=lambda kind: time[kind], default="")
    if _TOKENS.search(longest) or _NEIGHBOURS.search(longest):
        names = names_that_ran(analysis.trace)
        if any(map(_TABLES.search, names)):
            return _OF_TABLES
        # NCCL runs an all-to-all as sends and receives: only its callers say which it is.
        everybody = _TOKENS.search(longest) or any(map(_TOKENS.search, names))
        return _OF_EXPERTS if everybody else _OF_NEIGHBOURS
    sizes = columns.bytes[columns.bytes > 0]
    if len(sizes) and float(np.median(sizes)) < SMALL_BYTES:
        return _OF_SMALL_MESSAGES
    if inside.sum() >= MANY * max(analysis.steps_in_window, 1) and not is_training(analysis):
        return _OF_ACTIVATIONS
    shards = any(_SHARDS.search(kind) for kind in time)
    return _OF_SHARDS if shards else _OF_GRADIENTS
