"""What to try in terms of the software that was recorded: its own flags come first."""

from __future__ import annotations

import numpy as np

from parsers.model import Attribute, CopyKind, EventKind, Trace
from parsers.model.late import dataclass
from rules.analysis.names.software import is_compiled, software_of
from rules.wording.words import Words, for_jax, for_native, for_python, for_pytorch, ours, without_jax

# Flags as the projects' documentation names them: docs.vllm.ai, docs.sglang.ai, nvidia.github.io/TensorRT-LLM.
_OF_ENGINES: dict[str, tuple[Words, ...]] = {
    "SGLang": (
        ours(
            "Let SGLang replay $CUDA graphs: no --disable-cuda-graph, and --cuda-graph-max-bs as large as its batches."
        ),
        "Keep the scheduler ahead of the GPU: no --disable-overlap-schedule.",
    ),
    "vLLM": (
        ours(
            "Let vLLM replay $CUDA graphs: no --enforce-eager, with the sizes of its batches in --compilation-config."
        ),
        "Give each step more tokens: --max-num-batched-tokens and --max-num-seqs.",
    ),
    "TensorRT-LLM": (
        ours("Let TensorRT-LLM replay $CUDA graphs: cuda_graph_config with the batch sizes that occur."),
        "Keep the executor ahead of the GPU: no disable_overlap_scheduler.",
    ),
}
_OF_COMPILED: tuple[Words, ...] = (
    for_python(
        ours(
            'The model is compiled already: mode="reduce-overhead" lets it replay $CUDA graphs, and '
            "TORCH_LOGS=graph_breaks shows where Python still runs in between."
        )
    ),
)


_OF_PYTORCH = "PyTorch profiler"
_AFTER_START_UP = "Start recording after start-up, and record the same work several times."
_FUSED_BY_ENGINES: dict[str, Words] = {
    "SGLang": "Let SGLang fuse neighbouring kernels: --enable-torch-compile.",
    "vLLM": (
        "Let vLLM fuse neighbouring kernels: its compilation does, unless --enforce-eager switches it off."
    ),
    "TensorRT-LLM": "Let TensorRT-LLM fuse neighbouring kernels: torch_compile_config, or a built engine.",
}


_RECORDED_BY_ENGINES: dict[str, Words] = {
    "SGLang": (
        "Record later batches: call its server's /start_profile with num_steps once some requests have been served."
    ),
    "vLLM": "Record later requests: call its server's /start_profile and /stop_profile around them, once some have "
    "been served.",
    "TensorRT-LLM": "Record later iterations: TLLM_PROFILE_START_STOP=100-150.",
}
_LATER: tuple[Words, ...] = (
    for_pytorch("Record later steps: torch.profiler.schedule(wait=5, warmup=2, active=5)."),
    for_jax("Record later steps: call jax.profiler.start_trace once the first ones have run."),
    for_native(_AFTER_START_UP),
)


ARRAY_BYTES = 4096  # less are single values, such as those of a reduction
AGAIN, PER_KERNEL = 3, 0.05  # arrays each way, at least: a region around all loops moves each once


@dataclass(frozen=True, slots=True)
class _Directives:
    """What the directives of a way to offload loops are called."""

    data: str
    queue: str
    spread: str


_DIRECTIVES = {
    "OpenMP offloading": _Directives(
        "#pragma omp target data map(...)",
        "nowait and depend, and one taskwait at the end",
        "#pragma omp target teams distribute parallel for",
    ),
    "OpenACC": _Directives(
        "#pragma acc data copy(...)",
        "async(1), and one #pragma acc wait(1) at the end",
        "#pragma acc parallel loop gang vector",
    ),
}


def _directives(trace: Trace) -> list[_Directives]:
    return [_DIRECTIVES[name] for name in software_of(trace) if name in _DIRECTIVES]


def directive_advice(trace: Trace) -> tuple[Words, ...]:
    """How arrays stay on the GPU where loops that directives offload bring their own; empty for other programs."""
    if not _loops_bring_arrays(trace):
        return ()
    return tuple(
        f"Open a data region around the steps ({each.data}): without one, every loop copies its arrays both ways."
        for each in _directives(trace)
    )


def allocating_advice(trace: Trace) -> tuple[Words, ...]:
    """How arrays stay allocated where directives offload loops; empty for other programs."""
    return tuple(
        f"Open a data region around the steps ({each.data}): a loop outside of one allocates its arrays each time."
        for each in _directives(trace)
    )


def _loops_bring_arrays(trace: Trace) -> bool:
    """Whether arrays go to the GPU and come back again and again, and not once around all loops."""
    copies = trace.events.of_kind(EventKind.MEMCPY)
    moved = trace.attribute(Attribute.BYTES, copies)
    kind = trace.attribute(Attribute.COPY_KIND, copies[(moved < 0) | (moved >= ARRAY_BYTES)])
    least = max(AGAIN, PER_KERNEL * len(trace.events.of_kind(EventKind.KERNEL)))
    return all(np.count_nonzero(kind == way.value) >= least for way in (CopyKind.H2D, CopyKind.D2H))


def queueing_advice(trace: Trace) -> tuple[Words, ...]:
    """How loops that directives offload follow one another without the CPU between them; empty for other programs."""
    return tuple(
        f"Queue the loops behind one another ({each.queue}): otherwise the CPU waits for each before it launches the "
        "next."
        for each in _directives(trace)
    )


def spreading_advice(trace: Trace) -> tuple[Words, ...]:
    """How a loop that directives offload fills the GPU; empty for other programs."""
    return tuple(
        f"Spread the loop over the GPU ({each.spread}), nested loops with collapse(2): without these clauses, or "
        "where the compiler suspects a dependence, it runs on few threads. The compiler reports this (nvc "
        "-Minfo=accel,mp)."
        for each in _directives(trace)
    )


def spreading_code(trace: Trace) -> str:
    """The directive above a loop; empty for other programs."""
    return "\n\n".join(
        f"{each.spread} collapse(2)\nfor (int i = 0; i < rows; i++)\n    for (int j = 0; j < columns; j++)\n"
        "        out[i][j] = ...;   // no iteration reads what another writes"
        for each in _directives(trace)
    )


def later_steps(trace: Trace) -> tuple[Words, ...]:
    """How the recorder that was used is made to record later: an engine's own way, or the profiler's."""
    for name in software_of(trace):
        if name in _RECORDED_BY_ENGINES:
            return (_RECORDED_BY_ENGINES[name],)
    recorders = {each.producer for each in trace.inputs if each.producer}
    if recorders and not any(_OF_PYTORCH in each for each in recorders):
        return (without_jax(for_python(_AFTER_START_UP)), *_LATER[1:])
    return _LATER


def fusing_advice(trace: Trace) -> tuple[Words, ...]:
    """How the recorded engine joins neighbouring kernels; empty for others."""
    return tuple(_FUSED_BY_ENGINES[name] for name in software_of(trace) if name in _FUSED_BY_ENGINES)[:1]


def graph_advice(trace: Trace) -> tuple[Words, ...]:
    """How the recorded engine, or a model that is compiled already, replays graphs; empty for others."""
    engine = next((_OF_ENGINES[name][:1] for name in software_of(trace) if name in _OF_ENGINES), ())
    return engine or (_OF_COMPILED if is_compiled(trace) else ())


def launch_advice(trace: Trace) -> tuple[Words, ...]:
    """The advice for the recorded engine, or for a model that is compiled already; empty for others."""
    software = software_of(trace)
    for name, advice in _OF_ENGINES.items():
        if name in software:
            return advice
    return _OF_COMPILED if is_compiled(trace) else ()
