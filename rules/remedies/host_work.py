"""Work on the CPU: moved, made rarer or prepared in advance, by the names that it has."""

from __future__ import annotations

import re

from parsers.model.late import regex
from rules.analysis.names.regions import is_collection
from rules.analysis.stretches.program_frames import is_sleep
from rules.remedies.clocks import LOG_CLOCKS
from rules.remedies.compiling import COMPILE_ONCE
from rules.remedies.launching import FUSED_OPTIMIZER
from rules.remedies.remedy import Remedy, pytorch_remedy, remedy
from rules.terms import Culprit
from rules.wording.words import Words, for_native, for_python, for_pytorch, ours

_COMPILING = regex(
    r"dynamo|inductor(?!_root)|torch.?compile(?!d region)|compile_fx|async_compile|autotun|triton.{0,80}?compil|aot_|"
    r"fx_codegen|Scheduler\.codegen|GraphLowering|joint_graph|convert_frame|compile_inner|CompileContext",
    re.IGNORECASE,
)
_SAVING = regex(
    r"(?<![a-z])(save|saving|checkpoint|checkpointing|ckpt|snapshot|state_dict)(?![a-z])", re.IGNORECASE
)
_CPU_OPTIMIZER = regex(
    r"cpu_?(adam|adagrad|lion|optim)|optim\w{0,40}?offload|offload\w{0,40}?optim", re.IGNORECASE
)
_EVALUATING = regex(
    r"(?<![a-z])(eval|evaluate|evaluation|valid|validate|validation|test|testing)(?![a-z])", re.IGNORECASE
)
_LOGGING = regex(
    r"(?<![a-z])(log|logs|logging|logger|metric|metrics|wandb|tensorboard|mlflow|print|progress|tqdm)(?![a-z])",
    re.IGNORECASE,
)

_RANDOM = regex(
    r"^aten::(normal|uniform|random|bernoulli|exponential|cauchy|log_normal|randn?|randint|randperm|multinomial)_?\b"
)

# What the framework says of its own work: "evaluate_function" evaluates no model.
_MACHINERY = regex(r"^(autograd::|aten::|c10d?::|torch::|PjitFunction)")
_PASS = regex(
    r"(?<![a-z])(forward|backward|__call__|fwd|bwd|pass|model|loss|train_?(ing_?)?step|training)(?![a-z])|PjitFunction",
    re.IGNORECASE,
)

COLLECT_SELDOM = remedy(
    for_python(
        "Collect garbage less often: gc.disable() before the loop, and gc.collect() in it every few hundred steps, "
        "on all ranks at once."
    ),
    for_python("Call gc.freeze() once all long-lived objects exist: collections then skip them."),
    for_python(
        "Create less garbage: objects that refer to each other (a child that knows its parent) need weakref."
    ),
    code=for_python("""import gc

model, loader = build()
gc.collect()
gc.freeze()                       # what was made so far stays: nobody looks at it again
gc.disable()
for step, batch in enumerate(loader):
    train(batch)
    if step % 500 == 0:
        gc.collect()              # on all ranks in the same step"""),
)
NO_ANOMALY_DETECTION = pytorch_remedy(
    "Leave anomaly detection off: torch.autograd.set_detect_anomaly(False), and no detect_anomaly().",
    "Turn it on only to find a NaN that you have seen, and only for the steps that show it.",
    code="torch.autograd.set_detect_anomaly(False)   # and no torch.autograd.detect_anomaly() around the step",
)
_EVALUATE_SELDOM: tuple[Words, ...] = (
    "Evaluate less often, on fewer samples, or in another process that loads the checkpoints.",
    "Gather results on the GPU, and compute the metrics once at the end.",
)
EVALUATE_SELDOM = remedy(
    *_EVALUATE_SELDOM,
    code=for_python("""for step, batch in enumerate(loader):
    train(batch)
    if step % 1000 == 999:            # not in every step, nor in every tenth
        evaluate(model)"""),
)
PROCESSES_FOR_THREADS = remedy(
    for_pytorch("Use processes: DataLoader workers for data, multiprocessing for the rest."),
    for_python("Or use calls that release the GIL: numpy, torch, hashing and compressing large buffers."),
    for_python(
        "If neither is possible, let threads switch more often: sys.setswitchinterval(0.0005); or use a Python "
        "without the GIL (3.13t and later)."
    ),
    code=for_pytorch("""loader = DataLoader(dataset, num_workers=8, pin_memory=True)     # processes, not threads

import multiprocessing
worker = multiprocessing.get_context("spawn").Process(target=watch, daemon=True)
worker.start()"""),
)
RARER_IN_SLOW_STEPS = remedy(
    for_python("Do it less often: saving, evaluating and printing need not happen every few steps."),
    for_python(
        "Do it while training continues: write in a thread, from pinned memory, or evaluate in another process."
    ),
    for_native(
        "Do it less often, or in another thread while the GPU keeps working: writing, checking, preparing input."
    ),
    code=for_python("""writer = ThreadPoolExecutor(max_workers=1)
if step % 500 == 0:                                  # rarely ...
    state = {name: each.cpu() for name, each in model.state_dict().items()}
    writer.submit(torch.save, state, "model.pt")     # ... and beside the training"""),
)
SLOWED_GPU = remedy(
    ours(
        "Check with $GpuMonitor whether another program uses the GPU during the slow steps, and whether its clocks "
        "drop."
    ),
    "Record it again, alone on the GPU, after a few more steps of warm-up.",
    code=LOG_CLOCKS,
)
GROWING_STEPS = remedy(
    "If the program tries one size after another, record one size alone: its steps can be compared.",
    "If all steps work on the same amount of data, look for what piles up: lists that are searched or copied, a "
    "history that is kept.",
    for_pytorch(
        "While text is generated, keep the keys and values of earlier tokens (use_cache=True): without them each token "
        "computes all earlier ones again."
    ),
)
ROWS_AT_ONCE = pytorch_remedy(
    "Keep the data in tensors or arrays, and pick a batch by index: data[index].",
    "If rows are Python objects, make one tensor of all of them: torch.tensor(rows), or np.array(rows) and "
    "torch.from_numpy.",
    code="""batch = torch.stack([torch.tensor(row) for row in rows])   # one call for each row
batch = torch.tensor(rows)                                 # one call for all of them
batch = data[index]                                        # or none: data is a tensor, made once""",
)
_PADDED = (
    "Pad to a few lengths (say, multiples of 128 with a mask), so that plans are reused, and run each of these "
    "lengths once before the first request."
)
_IN_BACKGROUND = for_python("""from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(max_workers=1)
pending = pool.submit(host_work, 0)       # host_work: what runs on the CPU between launches
for step in range(steps):
    train_step(batch)                     # launches the GPU's work and returns at once
    result = pending.result()
    pending = pool.submit(host_work, step + 1)""")
_OUTSIDE: tuple[Words, ...] = (
    for_python(
        "Find out what runs there: record with stacks, or put record_function regions around parts of the step."
    ),
    for_python("Then move it to a worker process or a thread, or launch the next forward pass before it."),
)
_NATIVE: tuple[Words, ...] = (
    ours(
        "Find out what runs there: put $NVTX ranges ($nvtxRangePushA) around the parts of a step, or sample the CPU "
        "($SampleTheCpu)."
    ),
    "Move it to another thread, or launch the next work for the GPU before it.",
)
_JAX: tuple[Words, ...] = (
    "Launch the next step before this work: JAX runs ahead of the GPU as long as nothing reads a result.",
    "To see what runs there, record Python's frames too (python_tracer_level=1), or put jax.profiler.TraceAnnotation "
    "around the parts of a step.",
)
WAIT_FOR_WORK = remedy(
    for_python(
        "Wait for what is needed instead of looking for it from time to time: queue.get() and "
        "threading.Condition return as soon as something arrives."
    ),
    "If requests are collected into batches, begin with those that are there, and let later ones wait.",
    code=for_python("""batch = [requests.get()]                  # instead of time.sleep until some are there
while len(batch) < 32 and not requests.empty():
    batch.append(requests.get_nowait())"""),
)
_BY_NAME: tuple[tuple[re.Pattern[str], tuple[Words, ...]], ...] = (
    (
        _SAVING,
        (
            for_python(
                "Save in the background: torch.distributed.checkpoint.async_save, or copy to pinned memory and write "
                "from a thread."
            ),
            "Save less often, and only on the ranks that must.",
        ),
    ),
    (
        _CPU_OPTIMIZER,
        (
            for_python(
                "Keep the optimizer's state on the GPU if it fits: shard it over the ranks (FSDP, ZeRO), or hold it in "
                "8 bits."
            ),
            "If it must stay on the CPU, update one part of the parameters while the GPU works on another.",
        ),
    ),
    (_EVALUATING, _EVALUATE_SELDOM),
    (
        _RANDOM,
        (
            for_python(
                "Generate random numbers where they are needed: torch.randn(..., device='cuda') and the like."
            ),
            "Or generate them once, before the loop, or for the next step in another thread.",
        ),
    ),
    (
        _LOGGING,
        (
            "Log less often, and do the formatting and writing in a thread.",
            for_python("Or launch the next forward pass first, and do this work while the GPU computes."),
        ),
    ),
)


def by_name(culprit: Culprit) -> Remedy | None:
    """What usually helps against work of the names that a culprit has; None where they say nothing."""
    names = [name for name in culprit.names if not _MACHINERY.match(name) or _RANDOM.match(name)]
    if any(map(is_collection, names)):
        return COLLECT_SELDOM
    if any(map(_COMPILING.search, names)):
        return COMPILE_ONCE
    if any(map(is_sleep, names)):
        return WAIT_FOR_WORK
    if any("optimizer" in name.lower() for name in names) and not any(map(_CPU_OPTIMIZER.search, names)):
        return FUSED_OPTIMIZER.and_then(for_python("Compile the step: torch.compile(optimizer.step)."))
    advice = next((advice for pattern, advice in _BY_NAME if any(map(pattern.search, names))), ())
    return Remedy(advice, _IN_BACKGROUND) if advice else None


def beside_launches(advice: tuple[Words, ...], code: Words = "", *, is_known: bool = False) -> Remedy:
    """Advice for programs of Python, with what takes its place for others; ``is_known``: what runs there."""
    return remedy(*advice, native=_NATIVE[1:] if is_known else _NATIVE, jax=_JAX, code=code or _IN_BACKGROUND)


def off_the_path(name: str) -> tuple[Words, ...]:
    """Work of a name, or of none, is done where it does not hold up the launches."""
    if not name:
        return _OUTSIDE
    if name.startswith("aten::"):  # the model's own work, which nobody can move to another process
        return (
            for_python(
                f"Find out why {name} takes long on the CPU: first use, tensors on the CPU, or very many small ones."
            ),
            for_pytorch(
                f"If its tensors are on the CPU, copy them to the GPU before {name} instead of after it. Or let all "
                "cores work on it: torch.get_num_threads() shows how many do, and OMP_NUM_THREADS or a container may "
                "limit them."
            ),
        )
    return (
        f"Move {name} off the critical path: do it once and keep the result, or do it in a worker process or a "
        "thread that prepares the next step.",
        for_python("Or launch the next forward pass first, and do this work while the GPU computes."),
    )


def few_lengths(attention: bool) -> Remedy:
    """Shapes for which a library builds a plan each become few; ``attention``: it is an attention's plan."""
    if not attention:
        return remedy(_PADDED)
    return remedy(
        _PADDED,
        for_pytorch(
            "Or use an attention that needs no plan: torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)."
        ),
    )


def is_pass(culprit: Culprit) -> bool:
    """Whether a culprit is the model's own work, which nobody can move to another process."""
    return _MACHINERY.match(culprit.name) is not None or _PASS.search(culprit.name) is not None


def is_compilation(culprit: Culprit) -> bool:
    """Whether a culprit is work of torch.compile, by its names."""
    return any(map(_COMPILING.search, culprit.names))
