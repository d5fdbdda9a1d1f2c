"""A program that runs on the CPU alone: its data loader, its own code, its operators and how they are called."""

from __future__ import annotations

from parsers.model.late import regex
from rules.remedies.launching import FUSED_OPTIMIZER
from rules.remedies.remedy import Remedy, pytorch_remedy, remedy
from rules.wording.words import Words, for_python, for_pytorch

KERNEL_SYMBOLS = "Let perf read the kernel's symbols (sysctl kernel.kptr_restrict=0), and record again."
_CHEAPER_SAMPLES: Words = (
    "Make each sample cheaper: keep decoded data, and prepare a whole batch at once instead of one sample at a "
    "time (Dataset.__getitems__)."
)
_NEXT_BATCH_CODE = for_pytorch("""from concurrent.futures import ProcessPoolExecutor

pool = ProcessPoolExecutor(max_workers=1)
upcoming = pool.submit(make_batch, 0)
for step in range(steps):
    batch = upcoming.result()
    upcoming = pool.submit(make_batch, step + 1)    # made while this step computes
    train_step(batch)""")
OUTSIDE_OPERATORS = remedy(
    "Replace loops over elements with calls on whole arrays (torch, NumPy), and keep results that do not change.",
    for_python(
        "Move data preparation into a Dataset, and let a DataLoader's workers run it: num_workers=2, "
        "persistent_workers=True."
    ),
    code=_NEXT_BATCH_CODE,
)
FEWER_CALLS = remedy(
    "Give each call more work: larger batches, one call for all time steps, samples or heads instead of a loop.",
    for_pytorch(
        "Let torch.compile fuse small operators: torch.compile(model), or the function that contains the loop."
    ),
    for_pytorch("Outside training, use torch.inference_mode(): it skips autograd's bookkeeping."),
    code=for_pytorch("""model = torch.compile(model)                 # joins chains of small operators

y = torch.stack([f(x) for x in rows])        # one call for each row
y = torch.vmap(f)(torch.stack(rows))         # one call for all of them"""),
)
ITEMS_TOGETHER = remedy(
    "Compute all items at once: torch.stack(items), or pad them to one length, and one call of the model.",
    for_pytorch("torch.vmap(f)(rows) calls a function that was written for one row for all of them."),
    for_pytorch(
        "If a round needs the result of the one before, as steps through time do, use a layer that loops inside "
        "(nn.LSTM, nn.GRU), or torch.compile the loop."
    ),
    code=for_pytorch("""answers = [model(x[None])[0] for x in rows]   # one call for each row
answers = model(torch.stack(rows))           # one call for all of them"""),
)
STEPS_IN_ONE_LAYER = pytorch_remedy(
    "Let one layer go through all time steps: nn.LSTM or nn.RNN instead of a loop that calls a cell. On a CPU, "
    "nn.GRU still goes through them one by one and gains little.",
    "Keep a cell of your own, but compute what needs no state, such as the products with the inputs, for all steps "
    "before the loop, and torch.compile the loop.",
    code="""for x in inputs.unbind(1):                    # one call for each time step
    h, c = cell(x, (h, c))
outputs, (h, c) = lstm(inputs)                # one call for all of them: nn.LSTM(..., batch_first=True)""",
)
WEIGHTS_TOGETHER = remedy(
    "Keep the weights of all heads, experts or members in one tensor, and compute all of them with one product.",
    for_pytorch("Heads of attention: one nn.Linear for all of them, and scaled_dot_product_attention."),
    for_pytorch("Models that exist already: torch.func.stack_module_state(models) and torch.vmap."),
    code=for_pytorch("""answers = [expert(x) for expert in experts]   # one call for each
answers = torch.baddbmm(biases, x.expand(len(weights), -1, -1), weights)  # one call for all of them"""),
)
VALUES_TOGETHER = remedy(
    "Compute on whole tensors: x.max(), (x > 0).sum(), torch.where(...) instead of a loop over single values.",
    for_pytorch("If the loop must stay, convert once before it: x.tolist() instead of x[i].item()."),
    code=for_pytorch("""low, high = torch.aminmax(values)             # instead of a loop with values[i].item()
for value in values.tolist():                 # or all of them at once, and Python's numbers after that
    ..."""),
)
FEWER_THREADS = for_pytorch(
    "Try one thread, torch.set_num_threads(1): products this small should take microseconds, and if the cores are "
    "busy with other work, their threads wait for each other."
)


def as_many_threads(cores: int) -> Remedy:
    """As many threads as the program may use cores."""
    return remedy(
        for_pytorch(
            f"Start no more threads than there are cores: torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores} "
            "in the environment."
        ),
        "If other programs use the same cores, start even fewer, or run the programs one after another.",
        code=for_pytorch(f"torch.set_num_threads({cores})  # at the start of the program"),
        native=(f"Start no more threads than there are cores, such as with OMP_NUM_THREADS={cores}.",),
    )


SINGLE_PRECISION = for_pytorch(
    "Compute in float32 where that is precise enough (x.float(), torch.from_numpy(x.astype('float32'))): that is "
    "about half the work of float64."
)
IN_SINGLE_PRECISION = remedy(
    SINGLE_PRECISION,
    for_pytorch(
        "Find where the first float64 tensor comes from: NumPy's default is float64, torch.tensor(0.1) is float32, and "
        "torch.set_default_dtype changes both model and data."
    ),
    code=for_pytorch("""x = torch.from_numpy(array).float()            # NumPy's numbers are float64 by default
model = model.float()"""),
)
NO_ATTENTION_DROPOUT = pytorch_remedy(
    "Leave out the dropout of attention's scores (dropout_p=0, or dropout=0.0 in nn.MultiheadAttention): then "
    "scaled_dot_product_attention is one fused operator. Dropout elsewhere can stay.",
    code="""out = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0)""",
)
COMPUTED_ONCE = pytorch_remedy(
    "Call the blocks directly instead of through torch.utils.checkpoint, or only as many of them through it as "
    "memory requires. Hugging Face models: model.gradient_checkpointing_disable().",
    code="""hidden = block(hidden)                         # instead of checkpoint(block, hidden)""",
)
LARGE_OPERATORS = pytorch_remedy(
    "Check that all cores work: torch.get_num_threads() should be the number of physical cores; "
    "OMP_NUM_THREADS, torch.set_num_threads() and a container limit lower it.",
    "Compute in bfloat16 where the CPU supports it (lscpu shows amx_bf16 or avx512_bf16): "
    "torch.autocast('cpu', dtype=torch.bfloat16).",
    "Let torch.compile(model) fuse what follows the products, and use channels_last for convolutions.",
    code="""print(torch.get_num_threads(), torch.__config__.parallel_info())
torch.set_num_threads(8)                      # the number of physical cores
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = loss_of(model(x), y)""",
)
FALLBACK_CONVOLUTION = regex(r"aten::_?(slow_conv|thnn_conv)")
FAST_CONVOLUTION = pytorch_remedy(
    "This convolution is PyTorch's fallback, several times slower than oneDNN's: for float64, for one small input "
    "at a time, and in builds without oneDNN (torch.backends.mkldnn.is_available() is False).",
    "Convert model and input to float32, or use a build with oneDNN; on a Mac, compute on its GPU: device 'mps'.",
    code="""print(torch.backends.mkldnn.is_available(), x.dtype, next(model.parameters()).dtype)
device = "mps" if torch.backends.mps.is_available() else "cpu"
model, x = model.float().to(device), x.float().to(device)""",
)

ALL_CORES = remedy(
    "Check that all cores work: OMP_NUM_THREADS, the framework's own number of threads and a container limit lower it.",
    "Give each call more work: larger batches, one call instead of a loop.",
)


def loaded_beside(workers: int, *, has_workers: bool) -> Remedy:
    """Batches made by other processes; ``workers``: more would not make a step shorter."""
    if has_workers:
        return remedy(
            for_pytorch(
                "Use more workers, as long as CPU cores are free: they share them with the training threads."
            ),
            _CHEAPER_SAMPLES,
            code=_loader(max(workers, 4)),
        )
    return remedy(
        for_python(
            f"Load in other processes: DataLoader(..., num_workers={workers}, persistent_workers=True). They need "
            "free CPU cores: if the training uses all of them, lower torch.set_num_threads()."
        ),
        _CHEAPER_SAMPLES,
        code=_loader(workers),
    )


def region_beside(region: str) -> Remedy:
    """What a range that is named like input holds, moved to another process."""
    return remedy(
        for_python(f"Let another process do {region} for the next step while this one computes."),
        "Replace loops over elements in it with calls on whole arrays, and keep results that do not change.",
        code=_NEXT_BATCH_CODE,
    )


def fewer_calls(*, in_optimizer: bool) -> Remedy:
    """Small operators joined; in an optimizer its fused implementation does that."""
    return FEWER_CALLS.after(*FUSED_OPTIMIZER.advice[:1]) if in_optimizer else FEWER_CALLS


def _loader(workers: int) -> Words:
    return for_pytorch(f"""loader = DataLoader(
    dataset,
    batch_size=64,
    num_workers={workers},
    persistent_workers=True,
    prefetch_factor=4,
)""")
