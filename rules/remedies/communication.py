"""Communication between ranks: hidden, joined or sent less often, and work that is spread evenly over them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from parsers.model.arrays import median_of
from parsers.model.late import regex
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.gpu.inside_window import of_type
from rules.analysis.idle.causes import Cause
from rules.analysis.names.software import names_that_ran, software_of
from rules.analysis.ranks.collectives import CollectiveColumns
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.reasons import Reason, Why
from rules.analysis.ranks.recorded import ranks_of
from rules.analysis.recording.training import is_training
from rules.remedies.remedy import Remedy, remedy
from rules.terms import MAJORITY, quoted
from rules.wording.words import Words, for_python, for_pytorch, ours

OF_THE_GPU = (Why.CLOCK, Why.SLOW)  # the same work takes longer: the work is not what differs
NOTHING_TELLS = Reason(Why.HELD_UP)
SMALL_BYTES = 1_000_000  # below this the latency is most of a collective

MANY = 8  # collectives a step: gradients travel in fewer, sums of split layers in two for each layer


BESIDE_COMPUTATION = (
    "Start each transfer on its own stream as soon as its data is ready, and compute meanwhile."
)

_SIXTEEN_BITS = "Send 16 bits instead of 32 where that is precise enough."

_DDP_CODE = for_python("""model = torch.nn.parallel.DistributedDataParallel(
    model,
    device_ids=[local_rank],
    bucket_cap_mb=25,              # several buckets: the first is reduced while backward computes the rest
    gradient_as_bucket_view=True,
    static_graph=True,
)""")
_HALVES_CODE = for_python(
    """work = dist.all_to_all_single(received, tokens, async_op=True)   # one half of the batch travels
out = shared_expert(other_half)                                   # while the other half is computed
work.wait()                                                       # all_reduce and all_gather likewise"""
)
_RING_CODE = for_python("""pair = [dist.P2POp(dist.isend, block, following), dist.P2POp(dist.irecv, upcoming, previous)]
requests = dist.batch_isend_irecv(pair)     # the next piece travels
out = compute(block)                        # while this one is used
for request in requests:
    request.wait()""")

_OF_GRADIENTS = remedy(
    for_python(
        "Reduce gradients in several buckets while backward still runs: DistributedDataParallel(bucket_cap_mb=25), "
        "not one all-reduce after it."
    ),
    for_python(
        "Reduce less often (gradient accumulation with model.no_sync()) or less data (bf16 compression hook)."
    ),
    code=_DDP_CODE,
)
_OF_SHARDS = remedy(
    "Let FSDP fetch the next layer's parameters earlier: forward_prefetch=True, "
    "backward_prefetch=BackwardPrefetch.BACKWARD_PRE.",
    "Wrap larger units (auto_wrap_policy), so that each transfer is larger and covered by more computation.",
    "Shard inside a node only (HYBRID_SHARD) when the links between nodes are slow.",
    code=_DDP_CODE,
)
_OF_RESULTS = remedy(
    "Gather less: pool, select or reduce on each rank first, and gather what is left.",
    for_python("Start it before work that does not need it (async_op=True), or send 16-bit types."),
    code=for_python("""pooled = states.mean(dim=1)                                    # one vector for each text ...
dist.all_gather_into_tensor(every, pooled.bfloat16())          # ... instead of the states of all tokens"""),
)
_JOINED_CODE = for_pytorch("""flat = torch._utils._flatten_dense_tensors(small_tensors)
torch.distributed.all_reduce(flat)                       # one message instead of many
for tensor, reduced in zip(small_tensors, torch._utils._unflatten_dense_tensors(flat, small_tensors)):
    tensor.copy_(reduced)""")
JOIN_MESSAGES = remedy(
    for_python(
        "The messages are small: combine them (larger DDP buckets, FSDP units of whole blocks, one flattened "
        "tensor), or overlap them with computation."
    ),
    ours("Capture computation and communication as one $CUDA graph, so that no rank launches them late."),
    _SIXTEEN_BITS,
    code=_JOINED_CODE,
)
EQUAL_WORK = remedy(
    for_python(
        "Give all ranks the same amount of work in every step: batches with the same number of tokens, samples "
        "sorted or packed by length. Every step waits for the rank with the most work."
    )
)
EQUAL_STAGES = "Balance the stages by moving layers between them."
MICRO_BATCHES_FOR_STAGE = 4  # below this a stage is idle for a good part of the step, with schedule 1F1B
_TABLES_CODE = for_python("""pipeline = torchrec.distributed.TrainPipelineSparseDist(model, optimizer, device)
for _ in range(steps):
    pipeline.progress(batches)     # sends the next batch's embeddings while this batch computes""")

_OF_TABLES = remedy(
    for_python(
        "Exchange the embeddings of the next batch while this one computes: TorchRec's TrainPipelineSparseDist."
    ),
    "Spread the embedding tables evenly over the ranks: all ranks wait for the one with the most lookups.",
    "Send less: embeddings and their gradients in 16 or 8 bits.",
    code=_TABLES_CODE,
)
_OF_ACTIVATIONS = remedy(
    for_python(
        "With layers split over GPUs (tensor parallel), every layer waits for these sums: use only as many GPUs "
        "for one model as its memory needs, and run several copies of it."
    ),
    for_python(
        "Sum inside a node with a kernel made for it, as serving engines have, and overlap it with the other half of "
        "the batch."
    ),
    code=_HALVES_CODE,
)
_OF_EXPERTS = remedy(
    for_python(
        "Meanwhile, compute what does not need the exchanged tokens: shared experts, or the other half of the "
        "batch (two alternating micro-batches)."
    ),
    "Send less: 8-bit or 16-bit tokens, fewer experts per token, all experts of a token inside one node.",
    "Spread the tokens evenly: all ranks wait for the busiest expert.",
    code=_HALVES_CODE,
)
_OF_NEIGHBOURS = remedy(
    for_python(
        "In a pipeline a stage waits here for its neighbour: use more micro-batches, an interleaved schedule, and "
        "balanced stages."
    ),
    for_python(
        "Where pieces travel around a ring or between experts, start the next transfer (batch_isend_irecv on its "
        "own stream) before computing on the current one."
    ),
    code=_RING_CODE,
)

_TOKENS = regex(r"all_?(to|2)_?all", re.IGNORECASE)
_TABLES = regex(r"All2All_Pooled|all2all_data|alltoall_fwd_single|torchrec|\bKJT|kjt ", re.IGNORECASE)
_SHARDS = regex(r"_?(all_?gather|reduce_?scatter)", re.IGNORECASE)
_NEIGHBOURS = regex(r"send|recv", re.IGNORECASE)


ON_GPU = remedy(
    for_pytorch(
        'Let NCCL exchange tensors of GPUs: init_process_group("nccl"), or "cpu:gloo,cuda:nccl" where tensors of the '
        "CPU are exchanged as well."
    ),
    "Reduce tensors where they are, on the GPU, and copy only results that the host needs: gloo takes all of each "
    "tensor through the host's memory.",
    code=for_pytorch("""torch.cuda.set_device(local_rank)
torch.distributed.init_process_group("nccl")"""),
)

REDUCE_ONCE = remedy(
    "Run all backward passes of an update except the last inside model.no_sync().",
    code=for_pytorch("""for number, batch in enumerate(micro_batches):
    last = number == len(micro_batches) - 1
    with nullcontext() if last else model.no_sync():   # gradients add up on each rank
        loss = model(batch) / len(micro_batches)
        loss.backward()
optimizer.step()"""),
)
JOINED_ON_CPU = remedy(
    for_python(
        "Reduce them together: one flattened tensor for gradients, torch.stack for single values. Then read the values."
    ),
    for_pytorch("Gradients: let DistributedDataParallel reduce them, which joins them to buckets of 25 MB."),
    code=_JOINED_CODE,
)
LESS_ON_CPU = remedy(
    for_pytorch("Send less often: accumulate gradients over several batches, with model.no_sync()."),
    for_python(
        "Start a collective as soon as its data is there (async_op=True), and compute until it is needed."
    ),
    _SIXTEEN_BITS,
    code=for_pytorch("""for number, batch in enumerate(batches):
    last = (number + 1) % 4 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss_of(model(batch)).backward()                  # gradients travel with every fourth batch
    if last:
        optimizer.step()
        optimizer.zero_grad()"""),
)


def hidden_communication(analysis: Analysis, device: int) -> Remedy:
    """What hides or shortens transfers, by what is sent: gradients, shards, tokens, activations."""
    columns = ranks_of(analysis).run.columns
    found = _by_collective(analysis, columns, device)
    halved = found in (_OF_ACTIVATIONS, _OF_SHARDS) and _sums_single_precision(analysis, columns, device)
    advice = (*found.advice, *((_SIXTEEN_BITS,) if halved else ()))
    return remedy(*advice, native=(BESIDE_COMPUTATION,), code=found.code)


def _sums_single_precision(analysis: Analysis, columns: CollectiveColumns, device: int) -> bool:
    """Whether most of the collectives' time is spent in kernels that are named after sums of 32 bits."""
    t0, t1 = analysis.window
    events = columns.event[(columns.device == device) & (columns.end > t0) & (columns.start < t1)]
    took = durations(analysis.trace, events)
    return bool(took[of_type(analysis, events, "fp32")].sum() >= MAJORITY * max(took.sum(), 1))


def _by_collective(analysis: Analysis, columns: CollectiveColumns, device: int) -> Remedy:
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
    if len(sizes) and float(median_of(sizes)) < SMALL_BYTES:
        return JOIN_MESSAGES
    if inside.sum() >= MANY * max(analysis.steps_in_window, 1) and not is_training(analysis):
        return _OF_ACTIVATIONS
    if not any(_SHARDS.search(kind) for kind in time):
        return _OF_GRADIENTS
    software = software_of(analysis.trace)
    if "FSDP" in software or "DistributedDataParallel" not in software:
        return _OF_SHARDS
    # each rank has the whole model: the program gathers something else
    return _OF_RESULTS if _SHARDS.search(longest) else _OF_GRADIENTS


def full_pipeline(stages: int) -> Remedy:
    """More micro-batches for a pipeline of so many stages."""
    return remedy(
        f"Split each batch into more micro-batches: at least {MICRO_BATCHES_FOR_STAGE * stages} for {stages} "
        "stages.",
        for_python(
            "Use a schedule that starts backward passes early: 1F1B, or interleaved with several parts of the model on "
            "each GPU."
        ),
        EQUAL_STAGES,
        code=for_python("""from torch.distributed.pipelining import Schedule1F1B

schedule = Schedule1F1B(stage, n_microbatches=16, loss_fn=loss_fn)   # at least four for each stage
schedule.step(batch)"""),
    )


def slow_gpu(name: str) -> Words:
    """A rank whose GPU computes the same more slowly."""
    return (
        f"Look at {name}'s GPU: "
        + ours("$ClocksAndHeat shows whether heat or a power limit slows it, and ")
        + ours(
            "$GpuMonitor whether another program uses it, it is partitioned, or its memory reports errors."
        )
    )


def more_gpu_work(name: str) -> Words:
    """A rank whose GPU has more to do."""
    return (
        f"Give {name} the same amount of GPU work as the others: equal batches and sequence lengths, and no extra "
        "computation."
    )


def late_data(name: str) -> Words:
    """A rank that gets its data later."""
    return (
        f"Feed {name} as fast as the others: equal shares of the files, equally close storage, and as many loader "
        "workers with their own cores."
    )


def more_cpu_work(name: str) -> Words:
    """A rank whose CPU has more to do."""
    return (
        f"Take CPU work off {name}: log, save and evaluate elsewhere or in a thread, and give its process its own "
        "cores."
    )


def keep_up_on_cpu(name: str, region: str) -> Remedy:
    """What to change about a late rank without a GPU; ``region``: where it spends longer, empty if unknown."""
    return Remedy(
        (
            f"Shorten {quoted(region)} on {name}: give it the same share of the data and no work of its own."
            if region
            else f"Find out what {name} does differently: its machine, its input, its share of the work.",
            f"Give {name} cores of its own: as many threads on each rank as the machine has cores for.",
        ),
        for_pytorch("""# Which rank is late, and by how much, without a profiler:
begin = time.perf_counter()
torch.distributed.barrier()
print(torch.distributed.get_rank(), time.perf_counter() - begin, "s waited")   # the late rank waits least"""),
    )


def keep_up(ranks: Ranks[Any]) -> Remedy:
    """What to change, for each late rank or group."""
    advice = dict.fromkeys(
        keep_up_with(each.name, next(iter(ranks.reasons(each.rows)), NOTHING_TELLS)) for each in ranks.parties
    )
    return Remedy(
        tuple(advice),
        for_pytorch("""# Which rank is late, and by how much, without a profiler:
start = torch.cuda.Event(enable_timing=True)
end = torch.cuda.Event(enable_timing=True)
start.record()
torch.distributed.barrier()
end.record()
torch.cuda.synchronize()
print(torch.distributed.get_rank(), start.elapsed_time(end), "ms waited")   # the late rank waits least"""),
    )


def keep_up_with(name: str, reason: Reason) -> Words:
    """What to change about a late rank, or several, for one reason."""
    if reason.why in OF_THE_GPU:
        return slow_gpu(name)
    if reason.why in (Why.MORE, Why.COMPUTES):
        return more_gpu_work(name)
    if reason.cause is Cause.INPUT:
        return late_data(name)
    if reason.cause in (Cause.HOST, Cause.LAUNCH):
        return more_cpu_work(name)
    return f"Find out what {name} does differently: its machine, its input, its clocks."
