"""Memory that is allocated once."""

from __future__ import annotations

from parsers.model import Trace
from rules.remedies.engines import allocating_advice
from rules.remedies.remedy import Remedy, remedy
from rules.wording.words import Words, for_python, for_pytorch, ours

_NATIVE = (
    "Allocate once, before the loop, and reuse the memory.",
    ours("Or use $cudaMallocAsync with a pool that keeps its memory ($cudaMemPoolAttrReleaseThreshold)."),
)
_JAX = (
    "The first call of a compiled function allocates its buffers: run it once before measuring.",
    "If it happens again, donate arrays that are no longer needed (donate_argnums), and keep "
    "XLA_PYTHON_CLIENT_PREALLOCATE on.",
)
_CACHED: tuple[Words, ...] = (
    for_pytorch("Remove torch.cuda.empty_cache() (and del followed by it) from the training loop."),
    for_pytorch(
        "Keep tensor shapes the same from step to step, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
    ),
    for_pytorch(
        "If memory is nearly full, lower the batch size a little: the allocator then stops freeing its cache."
    ),
)
_UNCACHED: tuple[Words, ...] = (
    for_python("Switch the cache on: unset PYTORCH_NO_CUDA_MEMORY_CACHING (PYTORCH_NO_HIP_MEMORY_CACHING)."),
    for_python("If a custom allocator takes its place, let that one keep memory for the next tensor."),
)
_PINNED: tuple[Words, ...] = (
    "Allocate pinned memory once, before the loop, and copy into it: locking its pages takes longer than the copy "
    "it speeds up.",
    for_python(
        "Let the DataLoader pin in its own thread (pin_memory=True) instead of calling tensor.pin_memory() in each "
        "step."
    ),
)
_PINNED_CODE = """pinned = torch.empty(shape, dtype=dtype, pin_memory=True)   # once
for batch in loader:
    pinned.copy_(batch)
    inputs = pinned.to("cuda", non_blocking=True)"""
_CODE = """# 1. No torch.cuda.empty_cache() in the loop: it hands memory back that the next step asks for again.
# 2. If shapes change from step to step, let blocks grow instead of being freed (set before CUDA starts):
#    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
# 3. Keep the largest shapes allocated by running them once first:
with torch.no_grad():
    model(largest_batch)"""

NEVER_GIVEN_BACK = remedy(
    for_pytorch(
        "Remove gc.collect() and torch.cuda.empty_cache() from the loop. PyTorch reuses the memory of old tensors: "
        "given back to the driver, it has to be allocated anew, and freeing it waits for the GPU."
    ),
    for_python(
        "If memory runs full without them, something keeps old tensors: del what is no longer needed, keep loss.item() "
        "instead of loss, and collect every few hundred steps."
    ),
    code=for_pytorch("""for step, batch in enumerate(loader):
    train(batch)
    # no gc.collect(), no torch.cuda.empty_cache()
    if step % 500 == 0:
        gc.collect()"""),
)

KEPT_FROM_NOW_ON = remedy(
    for_pytorch(
        "Record later steps: the first ones make PyTorch ask for all memory that the others use again."
    ),
    for_pytorch(
        "Run the largest batch once before requests arrive, if the first of them must not wait for this."
    ),
)

UNNAMED_BESIDE_FREEING = for_python(
    "The recording does not say what runs beside the calls that free memory. If it is not gc.collect(), record again "
    "with Python stacks (--stacks)."
)


def kept_memory(trace: Trace, *, pinned: bool = False, uncached: bool = False) -> Remedy:
    """Memory stays allocated from step to step; ``pinned``: of the host, ``uncached``: PyTorch's cache is off."""
    return remedy(
        *(_UNCACHED if uncached else _PINNED if pinned else _CACHED),
        native=(*allocating_advice(trace), *_NATIVE),
        jax=_JAX,
        code=for_pytorch(_PINNED_CODE if pinned else _CODE),
    )
