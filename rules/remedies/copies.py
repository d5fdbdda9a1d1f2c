"""Copies between host and GPU: fewer, smaller, and beside the GPU's work."""

from __future__ import annotations

from parsers.model import Trace
from rules.analysis.gpu.copies import Copies
from rules.remedies.engines import directive_advice
from rules.remedies.host_work import by_name
from rules.remedies.remedy import Remedy, remedy
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Words, for_python, for_pytorch, ours

MORE_THAN_A_BATCH = 256_000_000  # bytes a step: 256 images of 224 x 224 in 32 bits are 154 MB

ASYNCHRONOUS_ALREADY = (
    "The copies are already asynchronous, but later work waits for them: issue them earlier, on their own stream, "
    "while the GPU is still computing."
)
NOTHING_TO_HIDE_THEM = (
    "The copies are already asynchronous, and the GPU computes too little to hide them: do more with the data while it "
    "is there, or compute where it already lies."
)
TOO_LITTLE_BESIDE = (
    "The GPU computes too little to hide the copies: do more with the data while it is there, or compute where it "
    "already lies."
)
PREFETCH_PAGES = remedy(
    ours(
        "Prefetch what a kernel or the CPU will need, in one piece: $cudaMemPrefetchAsync; $cudaMemAdvise for data "
        "that both sides only read."
    ),
    ours("Or allocate on the GPU ($cudaMalloc) and copy once with $cudaMemcpyAsync."),
    code="""cudaMemPrefetchAsync(data, bytes, gpu, stream);              // in one piece, before the kernel needs it
kernel<<<blocks, threads, 0, stream>>>(data, count);
cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId, stream);  // and back, before the CPU reads it""",
)
LARGER_PIECES = remedy(
    "Give each copy and each launch more data: a few megabytes, or the whole array in a few chunks.",
    "Use two or three streams for such chunks: more of them do not make small copies cheaper.",
    ours("If the pieces have to be small, record their copies and launches in a $CUDA graph."),
    code="""const size_t piece = 1 << 20;  // elements: some megabytes for each copy
for (size_t at = 0, n = 0; at < count; at += piece, n = (n + 1) % 2) {
    size_t part = std::min(piece, count - at);
    cudaMemcpyAsync(on_gpu + at, input + at, part * sizeof(*input), cudaMemcpyHostToDevice, streams[n]);
    kernel<<<(part + 255) / 256, 256, 0, streams[n]>>>(on_gpu + at, part);
    cudaMemcpyAsync(result + at, on_gpu + at, part * sizeof(*input), cudaMemcpyDeviceToHost, streams[n]);
}""",
)
ON_THE_GPU_OR_ONCE = remedy(
    "Do on the GPU what the CPU does with this memory between the kernels, or do it once, after the last of them.",
    *PREFETCH_PAGES.advice,
    code=PREFETCH_PAGES.code,
)
PREFETCH_SELDOM: tuple[Words, ...] = (
    ours(
        "$cudaMemPrefetchAsync changes the tables of pages on the CPU before it returns, which takes the longer the "
        "more pages move: prefetch each buffer once, and leave on the GPU what only the GPU uses."
    ),
    "Prefetch the next part from another thread, while the GPU works on this one.",
    ours("Or allocate on the GPU ($cudaMalloc) and copy once with $cudaMemcpyAsync from pinned memory."),
)
PREFETCH_EARLIER = remedy(
    "Prefetch earlier, and on a stream of its own: the data can travel while the kernels before it run.",
    "Leave data on the GPU that is used there again: only what the CPU touches in between has to move.",
    code=PREFETCH_PAGES.code,
)
PREFETCH_LESS = remedy(PREFETCH_EARLIER.advice[1], TOO_LITTLE_BESIDE)
KEEP_ON_GPU = remedy(
    "Keep data on the GPU that goes to the host only to be computed on: the copies disappear with that work.",
    "If it must stay on the host, use pinned memory and copy on a separate stream.",
)
OPTIMIZER_ON_GPU = remedy(
    KEEP_ON_GPU.advice[0],
    for_pytorch(
        "Create the optimizer with the parameters on the GPU. If its state does not fit there, use 8-bit states or "
        "sharding (FSDP) before offloading."
    ),
    code=for_pytorch("""model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)   # its state lies where the parameters lie"""),
)
KEEP_WEIGHTS = remedy(
    "Keep weights that fit on the GPU: compare their size with the free memory.",
    for_pytorch("Move modules once, before the loop, and never back: model.to('cuda')."),
    "If not everything fits, keep as much as there is room for, and prefetch the next layer from pinned memory on "
    "its own stream while this one computes; weights that were only read need not be copied back.",
)
_PIN = for_python("Pin the host memory: DataLoader(..., pin_memory=True), or tensor.pin_memory().")
_SEND_LESS = for_python(
    "Send less: smaller data types (uint8 images, bf16, indices instead of one-hot rows), and decode or augment "
    "on the GPU."
)
_NEXT_BATCH = for_python(
    'Copy the next batch with .to("cuda", non_blocking=True) on its own stream while this one computes.'
)
ROWS_ON_GPU = (
    "If the data that batches are put together from fit on the GPU, keep them there and pick rows by index."
)
_OFFLOADING = (
    for_python(
        "This is more data than a batch usually has. If weights or optimizer states live in host memory "
        "(offloading), keep what fits on the GPU, in fewer bits if need be."
    ),
    for_python(
        "Fetch the next layer's tensors with non_blocking=True on their own stream while this layer computes."
    ),
)
_PREFETCH_CODE = for_pytorch("""loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True)
copies = torch.cuda.Stream()

def prefetched(loader):
    upcoming = None
    for batch in loader:
        with torch.cuda.stream(copies):                    # the next batch travels on its own stream
            following = batch.to("cuda", non_blocking=True)   # asynchronous only from pinned memory
        if upcoming is not None:
            yield upcoming
        torch.cuda.current_stream().wait_stream(copies)
        following.record_stream(torch.cuda.current_stream())
        upcoming = following
    yield upcoming""")
_RESULTS_CODE = for_pytorch(
    """correct += (logits.argmax(dim=-1) == labels).sum()   # on the GPU, one number: no logits.cpu()

host = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)   # once, reused
copies = torch.cuda.Stream()

copies.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(copies):
    host.copy_(output, non_blocking=True)        # travels while the next request computes
    output.record_stream(copies)
done = copies.record_event()
# ... launch the next request here ...
done.synchronize()                               # only before host is read"""
)


def _of_pages(copies: Copies) -> Remedy:
    """Where hardly a kernel runs, nothing is there that a prefetch could travel beside."""
    if not copies.are_prefetched:
        return PREFETCH_PAGES
    return PREFETCH_EARLIER if copies.can_be_hidden else PREFETCH_LESS


_OFFLOADED_BY_JAX: tuple[Words, ...] = (
    'The compiled function makes these copies itself, for arrays in host memory (memory_kind="pinned_host", '
    "offloading). Keep on the device what fits there, in fewer bits if need be.",
    "Let it work on one layer while it fetches the next, such as in a loop over layers (jax.lax.scan): copies of what "
    "is needed at once have nothing to run beside.",
)


def less_to_gpu(trace: Trace, copies: Copies, *, bytes_a_step: float) -> Remedy:
    """What shortens or hides copies to the GPU, from how they are made now and how many there are."""
    if copies.are_migrations:
        return _of_pages(copies)
    shorter: tuple[Words, ...] = (
        _OFFLOADING
        if bytes_a_step >= MORE_THAN_A_BATCH
        else (for_python(_already(copies)), _SEND_LESS)
        if copies.are_asynchronous
        else (_NEXT_BATCH if copies.can_be_hidden else for_python(TOO_LITTLE_BESIDE), _SEND_LESS)
    )
    return remedy(
        *([_PIN] if copies.from_pageable else []),
        *shorter,
        native=(
            *directive_advice(trace),
            _by_api(copies),
            "Copy less: keep data on the GPU that is used again.",
        ),
        jax=_OFFLOADED_BY_JAX
        if copies.are_compiled
        else (
            "Move the next batch with jax.device_put, which returns immediately, while the current one is being "
            "computed.",
            "Pass JAX arrays to jitted functions: numpy arrays are copied on every call.",
        ),
        code=_PREFETCH_CODE,
    )


def less_from_gpu(trace: Trace, copies: Copies) -> Remedy:
    """What shortens or hides copies from the GPU, from how they are made now and who asks for them."""
    if copies.are_migrations:
        return _of_pages(copies)
    named = by_name(Culprit(CulpritKind.REGION, copies.regions[0])) if copies.regions else None
    beside = "on its own stream, and launch the next work before waiting."
    of_results: tuple[Words, ...] = (
        for_python(
            "Reduce on the GPU first and copy only what is needed (argmax, topk, a mean), in a smaller data type."
        ),
        for_python(
            _already(copies)
            if copies.are_asynchronous
            else _without_work_beside(
                copies, "Copy into pinned memory, which needs no second copy on the CPU."
            )
            if not copies.can_be_hidden
            else f"Copy with non_blocking=True {beside}"
            if copies.from_pinned
            else f"Copy into pinned memory with non_blocking=True {beside}"
        ),
    )
    return remedy(
        *(named.advice if named else of_results),
        native=(*directive_advice(trace), _by_api(copies), "Copy less: reduce on the GPU first."),
        jax=_OFFLOADED_BY_JAX
        if copies.are_compiled
        else ("Start the copy with x.copy_to_host_async(), launch the next step, and only then read it.",),
        code=_RESULTS_CODE,
    )


def _already(copies: Copies) -> str:
    return ASYNCHRONOUS_ALREADY if copies.can_be_hidden else NOTHING_TO_HIDE_THEM


def _without_work_beside(copies: Copies, pin: str) -> str:
    return TOO_LITTLE_BESIDE if copies.from_pinned else f"{pin} {TOO_LITTLE_BESIDE}"


def _by_api(copies: Copies) -> Words:
    """How copies come to run beside the GPU's work, from how they are made now, in terms of the API."""
    if copies.are_asynchronous:
        return _already(copies)
    if not copies.can_be_hidden:
        pin = "Allocate pinned host memory ($cudaHostAlloc): copies then need no second one on the CPU."
        return ours(_without_work_beside(copies, pin))
    if copies.from_pinned:
        return ours("Copy with $cudaMemcpyAsync on a separate stream while the GPU computes.")
    return ours(
        "Allocate pinned host memory ($cudaHostAlloc), and copy with $cudaMemcpyAsync on a separate stream while "
        "the GPU computes."
    )


PINNED_AT_FULL_SPEED: tuple[Words, ...] = (
    ours(
        "Find out why pinned copies are slow: bind the process to the CPU cores next to its GPU ($Topology lists "
        "them), and check whether GPUs share the link or the slot is narrower ($LinkState)."
    ),
)
