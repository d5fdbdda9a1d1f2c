"""What to do about work on the CPU that names itself: compilation, saving, evaluating, logging, an optimizer."""

from __future__ import annotations

import re

from rules.analysis.names.regions import is_collection
from rules.culprit import Culprit
from rules.wording.words import Words, for_python, for_pytorch

_COMPILING = re.compile(
    r"dynamo|inductor(?!_root)|torch.?compile(?!d region)|compile_fx|async_compile|autotun|triton.{0,80}?compil|aot_|"
    r"fx_codegen|Scheduler\.codegen|GraphLowering|joint_graph|convert_frame|compile_inner|CompileContext",
    re.IGNORECASE,
)
_SAVING = re.compile(
    r"(?<![a-z])(save|saving|checkpoint|checkpointing|ckpt|snapshot|state_dict)(?![a-z])", re.IGNORECASE
)
_CPU_OPTIMIZER = re.compile(
    r"cpu_?(adam|adagrad|lion|optim)|optim\w{0,40}?offload|offload\w{0,40}?optim", re.IGNORECASE
)
_EVALUATING = re.compile(
    r"(?<![a-z])(eval|evaluate|evaluation|valid|validate|validation|test|testing)(?![a-z])", re.IGNORECASE
)
_LOGGING = re.compile(
    r"(?<![a-z])(log|logs|logging|logger|metric|metrics|wandb|tensorboard|mlflow|print|progress|tqdm)(?![a-z])",
    re.IGNORECASE,
)

_RANDOM = re.compile(
    r"^aten::(normal|uniform|random|bernoulli|exponential|cauchy|log_normal|randn?|randint|randperm|multinomial)_?\b"
)

# What the framework says of its own work: "evaluate_function" evaluates no model.
_MACHINERY = re.compile(r"^(autograd::|aten::|c10d?::|torch::|PjitFunction)")
_PASS = re.compile(
    r"(?<![a-z])(forward|backward|__call__|fwd|bwd|pass|model|loss|train_?(ing_?)?step|training)(?![a-z])|PjitFunction",
    re.IGNORECASE,
)

OF_COLLECTIONS: tuple[Words, ...] = (
    for_python(
        "Collect seldom: gc.disable() before the loop, and gc.collect() in it every few hundred steps, where all ranks "
        "do it at once."
    ),
    for_python("Call gc.freeze() once everything that stays is made: no collection looks at it again."),
    for_python(
        "Leave less garbage: objects that point at each other (a child that knows its parent) need weakref."
    ),
)
OF_COMPILERS: tuple[Words, ...] = (
    "If this comes again in later steps, the model is compiled anew: TORCH_LOGS=recompiles says why.",
    for_python(
        "Mark sizes that change as dynamic (torch._dynamo.mark_dynamic, torch.compile(dynamic=True)), or pad "
        "inputs to a few sizes."
    ),
)
OF_ONE_LOCK: tuple[Words, ...] = (
    for_pytorch("Let processes do it: DataLoader workers for data, multiprocessing for the rest."),
    for_python(
        "Or do it with calls that let the lock go: numpy, torch, hashing and compressing of large buffers."
    ),
    for_python(
        "Where neither is possible, let threads take turns more often: sys.setswitchinterval(0.0005); or use a Python "
        "without this lock (3.13t and later)."
    ),
)
_ADVICE: tuple[tuple[re.Pattern[str], tuple[Words, ...]], ...] = (
    (_COMPILING, OF_COMPILERS),
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
    (
        _EVALUATING,
        (
            "Evaluate less often, on fewer samples, or in another process that loads the checkpoints.",
            "Gather results on the GPU, and compute the metrics once at the end.",
        ),
    ),
    (
        _RANDOM,
        (
            for_python(
                "Make the random numbers where they are needed: torch.randn(..., device='cuda') and the like."
            ),
            "Or make them once, before the loop, or for the next step in another thread.",
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


def advice_by_name(culprit: Culprit) -> tuple[Words, ...]:
    """What usually helps against work of the names that a culprit has; nothing where they say nothing."""
    names = [name for name in culprit.names if not _MACHINERY.match(name) or _RANDOM.match(name)]
    if any(map(is_collection, names)):
        return OF_COLLECTIONS
    return next((advice for pattern, advice in _ADVICE if any(map(pattern.search, names))), ())


def is_pass(culprit: Culprit) -> bool:
    """Whether a culprit is the model's own work, which nobody can move to another process."""
    return _MACHINERY.match(culprit.name) is not None or _PASS.search(culprit.name) is not None


def is_compilation(culprit: Culprit) -> bool:
    """Whether a culprit is work of torch.compile, by its names."""
    return any(map(_COMPILING.search, culprit.names))
