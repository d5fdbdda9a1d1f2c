"""Names of operators, compilers and waiting functions that tell what a thread does."""

from __future__ import annotations

import re

from parsers.model.late import regex


def aten(names: str) -> frozenset[str]:
    """The operators of ATen with these names, which are written with blanks between them."""
    return frozenset(f"aten::{each}" for each in names.split())


# Functions of the forward pass: what computes their gradients is called otherwise.
FORWARD = aten(
    "linear conv1d conv2d conv3d layer_norm rms_norm group_norm batch_norm "
    "scaled_dot_product_attention gelu relu relu_ silu softmax embedding addmm conv_transpose2d "
    "dropout native_dropout instance_norm leaky_relu log_softmax max_pool2d"
)


DROPOUTS = regex(r"aten::(native_|feature_|alpha_|feature_alpha_)?dropout_?$")
DRAWS_FOR_DROPOUT = regex(r"aten::(bernoulli_?|native_dropout)$")
FILLS = aten("zeros zero_ fill_")
PRODUCTS = aten("mm addmm matmul linear")
PICKED = regex(r"aten::(select|slice)$")


def is_autograd_function(name: str) -> bool:
    """Whether autograd runs a function of the backward pass inside of it."""
    return name.startswith("autograd::engine::evaluate_function")


COMPILERS: tuple[tuple[str, re.Pattern[str]], ...] = (  # who compiles, by the names of its work
    (
        "torch.compile",
        regex(
            r"dynamo|inductor|torch.?compile|CompiledFxGraph|compile_fx|async_compile|autotune|triton_compile|aot_"
        ),
    ),
    (
        TORCH_SCRIPT := "TorchScript",
        regex(
            r"nvFuser|FusionExecutor|TensorExpr(?!ess)|torch::jit::|prim::\w*Fusion|^forward$|^<forward op>$"
        ),
    ),
    (
        "XLA",
        regex(
            r"XlaCompile|backend_compile|compile_or_get_cached|(PjRt|Pjrt|Tfrt|Gpu)\w*(Client::Compile|Compiler)|"
            r"EmitLlvmIr|GpuAutotuner"
        ),
    ),
    ("TensorFlow", regex(r"MetaOptimizer|OptimizeGraph|InstantiateFunction|TraceFunction|FuncGraph")),
    ("Numba", regex(r"numba[/\\](core|cuda)[/\\]\w*(compil|codegen|dispatch)")),
    ("CuPy", regex(r"cupy[/\\]cuda[/\\]compiler|cupy[/\\]_core[/\\]raw")),
    ("Triton", regex(r"triton[/\\](compiler|backends|runtime[/\\]autotuner)")),
)
_WHEN_IT_RUNS = regex(
    r"Cache Lookup|Torch-Compiled Region|CompiledF(unction|xGraph)|Pregraph|inductor_root|_runtime_wrapper",
    re.IGNORECASE,
)
_BESIDE = regex(  # the frames around compiled code, guards, launches of Triton's kernels, and who waits for work
    r"_dynamo[/\\](eval_frame|guards|mutation_guard)|call_size|launch_metadata|triton[/\\]backends[/\\]\w+[/\\]driver|"
    r"compile_worker"
)
_OF_EVERY_CALL = (TORCH_SCRIPT, "TensorFlow")


FIRST_CALLS = 3  # of scripted code: it watches the first one, compiles in the next, and maybe once more


def is_scripted(name: str) -> bool:
    """Whether an operator is a call of TorchScript, which bears the same name whether it compiles or not."""
    return is_work_of(dict(COMPILERS)[TORCH_SCRIPT], name)


def only_scripted(name: str) -> bool:
    """Whether no range of a program bears such a name."""
    return is_scripted(name) and name != "forward"


def is_compiled_code(name: str) -> bool:
    """Whether a range, frame or operator is what torch.compile made: it launches, and has no other work."""
    return _WHEN_IT_RUNS.search(name) is not None


def is_compiling(name: str) -> bool:
    """Whether an operator or range is a compiler's work, and not the run of what it made.

    TorchScript's and TensorFlow's calls bear the same name when they are fast, and do not count.
    """
    return any(is_work_of(pattern, name) for compiler, pattern in COMPILERS if compiler not in _OF_EVERY_CALL)


def is_work_of(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a name is one of a compiler's own work; ``pattern`` is that compiler's."""
    return bool(pattern.search(name)) and not (_WHEN_IT_RUNS.search(name) or _BESIDE.search(name))


_OF_A_LOCK = regex(
    r"(?:_thread\.\w+|_multiprocessing\.SemLock)\.(?:acquire|__enter__)|<built-in method (?:acquire|__enter__)\b.*"
)


_OF_OTHERS = regex(r"rpc_(?:a?sync|remote)#|(?:gloo|mpi|ucc):(?:send|recv)")


def waits_for_a_process(name: str) -> bool:
    """Whether a range of that name is a call of PyTorch's RPC or a message, which end when another process answers."""
    return _OF_OTHERS.match(name) is not None


def waits_for_a_lock(function: str) -> bool:
    """Whether a function of that name, as tracers of Python write it, waits for a lock: others work meanwhile."""
    return _OF_A_LOCK.fullmatch(function) is not None


_WAITING = {  # of Python's own modules
    "threading.py": {"join", "wait", "acquire", "_wait_for_tstate_lock", "__enter__"},
    "connection.py": {"_recv", "recv", "recv_bytes", "poll", "_poll", "wait", "accept"},
    "pool.py": {"wait", "get", "_handle_tasks", "_handle_workers", "_handle_results", "_wait_for_updates"},
    "popen_fork.py": {"poll", "wait"},
    "process.py": {"join"},
    "queue.py": {"get", "put"},
    "queues.py": {"get", "put"},
    "selectors.py": {"select"},
    "subprocess.py": {"wait", "_wait", "_try_wait", "communicate", "_communicate"},
    "thread.py": {"_worker"},
}
_SPINS = regex(r"(?:__|__x64_sys_|do_)?sched_yield|SwitchToThread|NtYieldExecution")


def waits_for_others(function: str, file: str) -> bool:
    """Whether a sampled function of Python's own modules is one that waits for another thread or process."""
    return function in _WAITING.get(file.replace("\\", "/").rpartition("/")[2], ())


def spins(function: str) -> bool:
    """Whether a sampled function gives the core to others for a moment, as threads do that wait without sleeping."""
    return _SPINS.fullmatch(function) is not None
