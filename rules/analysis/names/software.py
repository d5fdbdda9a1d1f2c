"""Which software was recorded, by names of frames, operators, regions, kernels and calls."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from parsers.model import BOOL, Trace, derived
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.mangled import spelled_out
from parsers.model.names.per_name import distinct, named
from parsers.model.names.source_files import IMPORTER
from rules.analysis.arithmetic.ascending_search import last_not_after
from rules.analysis.arithmetic.intervals import length, union
from rules.terms import NEARLY_ALL

# In the order in which they are told: what the user started first, what it stands on after that.
_SIGNS = (
    ("SGLang", r"\bsglang[/.\\]|\bsgl_(kernel|hip)|^step\[(EXTEND|DECODE|MIXED)\b"),
    ("vLLM", r"\bvllm[/.\\]|\bvllm::|^_C_cache_ops::"),
    ("TensorRT-LLM", r"\btensorrt_llm[/.\\]|^\[Executor\] _forward_step"),
    ("Triton Inference Server", r"tritonserver|TRITONBACKEND_"),
    (
        "TensorRT",
        r"nvinfer|^TensorRT:|ExecutionContext::(enqueue|execute)|^myelinGraphExecute|_execute_kernel_trt\b|^__myl_",
    ),
    ("xDiT", r"\bxfuser[/.\\]|\bxdit\b|^execute_diffusion_"),
    ("Diffusers", r"\bdiffusers[/\\]"),
    ("DeepSpeed", r"\bdeepspeed[/.\\]|^DeepSpeed"),
    ("Megatron", r"\bmegatron[/.\\]"),
    ("Lightning", r"^\[pl\]\[|\blightning[/\\]|pytorch_lightning"),
    ("Transformers", r"\btransformers[/\\]"),
    ("FSDP", r"^FSDP::|FullyShardedDataParallel|fsdp[/\\]_fully_shard"),
    ("DistributedDataParallel", r"^DistributedDataParallel\."),
    ("JAX", r"\bjax[/\\]|^jit\(|^PjitFunction|pjrt_|^jit_\w+\("),
    ("TensorFlow", r"\btensorflow(::|[/\\])|^tf\.|^ExecutorState::Process"),
    ("MXNet", r"\bmshadow::|\bmxnet::"),
    ("CuPy", r"^cupy_|cupy_backends"),
    ("Numba", r"\bcudapy::"),
    ("RAPIDS", r"\b(cudf|cuml|cugraph|rmm)(::|[/\\])"),
    ("PyTorch", r"^aten::|\bat::native::|(^|-packages[/\\])torch[/\\]|^autograd::engine"),
    ("llama.cpp", r"\bggml_|\bmul_mat_(vec_)?q\b|\bk_get_rows(_float)?\b"),
    ("Julia", r"^julia_|\b(Cu|ROC)DeviceArray\b"),
    ("OpenMP offloading", r"^__omp_offloading|^nvkernel_"),
    ("OpenACC", r"^acc_|_\d+_gpu$|^__pgi_uacc"),
    ("Kokkos", r"\bKokkos::"),
    ("MPI", r"^MPI_[A-Z]"),
)
_ANY = regex("|".join(f"(?P<s{number}>{pattern})" for number, (_, pattern) in enumerate(_SIGNS)))
# found several times as fast
_MAYBE = regex("|".join(re.sub(r"\\b|\^", "", pattern) for _, pattern in _SIGNS))
_RUNTIMES = {"CUDA": regex(r"cu(da)?[A-Z]\w+\Z"), "HIP": regex(r"hip[A-Z]\w+\Z")}
_ON_GPUS_ALONE = frozenset({"TensorRT-LLM", "TensorRT", "CuPy", "RAPIDS"})
_ENGINES = frozenset({"SGLang", "vLLM", "TensorRT-LLM"})
_FRAMEWORKS = frozenset(name for name, _ in _SIGNS) - {"MPI"}
_COMPILED = regex(r"CompiledFxGraph|Torch-Compiled Region|^triton_(poi|red|per)_fused|inductor[/\\]|^jit_")


@derived
def software_of(trace: Trace) -> tuple[str, ...]:
    """The names of what is recognised; "CUDA" or "HIP" alone where a program uses nothing else that is known."""
    found = set(map(_sign_of, names_that_ran(trace)))
    names = [name for name, _ in _SIGNS if name in found]
    if names[:1] == ["SGLang"]:
        names = [name for name in names if name != "vLLM"]  # whose kernels it runs
    if "OpenMP offloading" in names:
        names = [name for name in names if name != "OpenACC"]  # whose runtime fills arrays for it
    if not _FRAMEWORKS & set(names):
        names = [*(name for name in _RUNTIMES if name in found), *names]
    return tuple(names)


@lru_cache(maxsize=65536)
def _sign_of(name: str) -> str:
    """The software that a name is a sign of, or the runtime that is called so; empty for other names."""
    name = spelled_out(name)
    match = _MAYBE.search(name) and _ANY.search(name)
    if match and match.lastgroup:
        return _SIGNS[int(match.lastgroup[1:])][0]
    return next((runtime for runtime, call in _RUNTIMES.items() if call.match(name)), "")


def is_serving_engine(trace: Trace) -> bool:
    """Whether a serving engine ran, which takes nearly all of the GPU's memory when it starts, and records itself."""
    return bool(_ENGINES & set(software_of(trace)))


def runs_on_gpus_alone(trace: Trace) -> bool:
    """Whether the program uses a library that computes on nothing but a GPU, whether or not a GPU was recorded."""
    return bool(_ON_GPUS_ALONE & set(software_of(trace)))


@derived
def is_compiled(trace: Trace) -> bool:
    """Whether the program runs code that torch.compile or XLA made: then nobody needs to be told to compile it."""
    return any(map(_COMPILED.search, names_that_ran(trace)))


@derived
def names_that_ran(trace: Trace) -> tuple[str, ...]:
    """The names of events: a table of strings also holds what was only mentioned, and so does importing modules."""
    ran = trace.events.name
    if any(IMPORTER in name for name in trace.strings):
        ran = ran[~_while_importing(trace)]
    return tuple(trace.strings[name] for name in distinct(ran).tolist())


def _while_importing(trace: Trace) -> BOOL:
    """Which events lie inside a frame of Python's importer; none of a thread that does all of its work there."""
    table = trace.events
    imports = np.flatnonzero(named(trace, np.arange(len(table)), lambda name: IMPORTER in name))
    found = np.zeros(len(table), bool)
    for lane in distinct_values(table.lane[imports]).tolist():
        importing = union(*table.spans(imports[table.lane[imports] == lane]))
        mine = np.flatnonzero(table.lane == lane)
        if length(importing) < NEARLY_ALL * length(union(*table.spans(mine))):
            place = last_not_after(importing[0], table.start[mine])
            found[mine] = (place >= 0) & (table.start[mine] < importing[1][np.maximum(place, 0)])
    return found
