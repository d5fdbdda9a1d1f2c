"""A CPU that waits for the GPU, or a GPU that waits for data."""

from __future__ import annotations

from parsers.model import Trace
from rules.remedies.engines import queueing_advice
from rules.remedies.remedy import Remedy, remedy
from rules.wording.words import Words, for_python, for_pytorch, ours

_NATIVE = (
    ours(
        "Wait only for what is needed: $cudaEventSynchronize on the CPU, or $cudaStreamWaitEvent, which makes the "
        "GPU wait while the CPU stays ahead."
    ),
    ours("Copy results with $cudaMemcpyAsync into pinned memory, and read them late and many at once."),
)
_JAX = (
    "Read values back rarely, many at once, and after launching the next step: float(x), x.item(), "
    "numpy.asarray(x) and block_until_ready() wait for the GPU.",
    "Keep conditions on the GPU: jnp.where, jax.lax.cond, jax.lax.while_loop.",
)
_FIXED_SIZES: tuple[Words, ...] = (
    for_python(
        "Keep sizes fixed: torch.where or a multiplication by the mask instead of x[mask] and nonzero, "
        "torch.nonzero_static where the number is known."
    ),
    "Or compute the indices once, outside the loop.",
)
_FEWER_READS: tuple[Words, ...] = (
    for_python(
        "Keep values on the GPU and read them back only once in many steps: collect loss.detach() and call .item() "
        "on their mean."
    ),
    for_python("Read several values back together: torch.stack(values).tolist()."),
    for_python(
        "Replace conditions on tensors with torch.where, and copy results with non_blocking=True into pinned memory."
    ),
)
_NO_SYNCHRONISATION: tuple[Words, ...] = (
    for_python(
        ours(
            "Remove torch.cuda.synchronize() from the step; to measure time, record $CUDA events and read them later."
        )
    ),
    for_python(
        "If another stream must wait, use stream.wait_event(event): it makes the GPU wait, not the CPU."
    ),
)
_FIXED_SIZES_CODE = """y = torch.where(mask[..., None], expert(x), x)     # every row, one shape, no wait
# instead of
y[mask] = expert(x[mask])                          # how many rows? the CPU waits for the GPU to count them"""
_FEWER_READS_CODE = """losses = []
for batch in loader:
    loss = train_step(batch)
    losses.append(loss.detach())              # stays on the GPU: nothing waits
    if len(losses) == 100:
        print(torch.stack(losses).mean().item())   # one read-back for a hundred steps
        losses.clear()"""
_EVENTS_CODE = """start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
train_step(batch)
end.record()                       # instead of torch.cuda.synchronize() around every part
# ... later, once, outside the loop:
torch.cuda.synchronize()
print(start.elapsed_time(end), "ms")"""
_LOADER_CODE = for_pytorch("""loader = DataLoader(
    dataset,
    batch_size=64,
    num_workers=8,            # decode and collate in other processes
    pin_memory=True,          # so that copies to the GPU can overlap
    persistent_workers=True,
    prefetch_factor=4,
)
for batch in loader:
    batch = batch.to("cuda", non_blocking=True)""")
PERSISTENT_WORKERS = remedy(
    for_pytorch("Keep the workers alive: DataLoader(..., persistent_workers=True)."),
    for_pytorch("Make each loader once, before the loop over epochs, also the one of the validation set."),
    for_pytorch(
        "Or make passes longer: a sampler that goes through the data several times, and fewer evaluations."
    ),
    code=_LOADER_CODE,
)
_REGION_CODE = for_pytorch("""from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(max_workers=1)
upcoming = pool.submit(load_batch)        # load_batch: your input code
for step in range(steps):
    batch = upcoming.result()
    upcoming = pool.submit(load_batch)    # the next batch is prepared while the GPU works
    train_step(batch)""")


def fewer_waits(trace: Trace, *, counts_rows: bool, reads_values: bool) -> Remedy:
    """What keeps the CPU from waiting: for the number of rows of a mask, for values, for everything."""
    advice, code = (
        (_FIXED_SIZES, _FIXED_SIZES_CODE)
        if counts_rows
        else (_FEWER_READS, _FEWER_READS_CODE)
        if reads_values
        else (_NO_SYNCHRONISATION, _EVENTS_CODE)
    )
    return remedy(*advice, native=(*queueing_advice(trace), *_NATIVE), jax=_JAX, code=for_pytorch(code))


def prepared_input(region: str, *, loader: bool, workers: bool) -> Remedy:
    """What loads the next batch beside the GPU's work: in a DataLoader, which may have workers, or in a region."""
    advice: tuple[Words, ...]
    if workers:
        advice = (
            for_python(
                "Use more workers (num_workers up to the number of CPU cores per GPU) and a larger prefetch_factor."
            ),
            for_pytorch(
                "Keep the workers alive between two passes over the data: persistent_workers=True. Otherwise each pass "
                "starts with new ones and an empty queue, which a recording of the middle of a pass does not show."
            ),
            "Make one sample cheaper: cache decoded data, use a faster decoder, move augmentation to the GPU.",
        )
    elif loader:
        advice = (
            for_python(
                "Load in worker processes: DataLoader(..., num_workers=8, pin_memory=True, persistent_workers=True)."
            ),
            for_python("Prepare the next batch while the GPU works on this one."),
        )
    else:
        advice = (
            for_python(
                f"Prepare the next batch in a thread or worker process while the GPU works, so that {region} is "
                "off the critical path."
            ),
            for_python("Launch the next forward pass before preparing the batch after it."),
        )
    return remedy(
        *advice,
        native=("Prepare the next input in another thread while the GPU works on this one.",),
        jax=(
            "Prepare the next batch in a thread or a process (grain, tf.data or a DataLoader), and move it with "
            "jax.device_put while this one is computed.",
        ),
        code=_LOADER_CODE if loader or workers else _REGION_CODE,
    )
