"""Compilers that run while the program does, by the names of their work."""

from __future__ import annotations

import re

from parsers.model.late import regex

COMPILERS: tuple[tuple[str, re.Pattern[str]], ...] = (  # who compiles, by the names of its work
    (
        "torch.compile",
        regex(
            r"dynamo|inductor|torch.?compile|CompiledFxGraph|compile_fx|async_compile|autotune|triton_compile|aot_"
        ),
    ),
    (
        TORCH_SCRIPT := "TorchScript",
        regex(r"nvFuser|FusionExecutor|TensorExpr(?!ess)|torch::jit::|^forward$"),
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
