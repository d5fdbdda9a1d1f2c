"""Words of ours that depend on who reads them: which program was recorded, and whose GPU it ran on.

What rules say is a value until it is shown: a ``str`` is said as it is, and so is everything that comes from a
recording; a ``Text`` has terms in it that NVIDIA and AMD call differently, or is meant for some readers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from parsers.model import Trace
from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from rules.analysis.gpu.gpu_vendor import Vendor, vendor_of
from rules.analysis.names.host_language import Audience, program_of


@dataclass(frozen=True, slots=True)
class Reader:
    """Whom a finding is told."""

    audience: Audience = Audience.PYTORCH
    vendor: Vendor = Vendor.NVIDIA

    @staticmethod
    def of(trace: Trace) -> Reader:
        """The reader who recorded this."""
        return Reader(program_of(trace), vendor_of(trace))


ANYBODY = Reader()


@dataclass(frozen=True, slots=True)
class Term:
    """Something that NVIDIA and AMD call differently, by its key in ``_TERMS`` or NVIDIA's name of an API call."""

    key: str

    def said(self, vendor: Vendor) -> str:
        nvidia, amd = _TERMS.get(self.key) or (self.key, _AS_HIP.sub("hip", self.key))
        if vendor is Vendor.OTHER:
            return _OF_OTHERS.get(self.key, nvidia)
        return amd if vendor is Vendor.AMD else nvidia


# PyTorch keeps the name torch.cuda on ROCm, so its calls are no terms.
_TERMS = {
    "CUDA": ("CUDA", "HIP"),
    "CUDA_API": ("CUDA API", "HIP"),
    "NVTX": ("NVTX", "rocTX"),
    "nvtxRangePushA": ("nvtxRangePushA", "roctxRangePushA"),
    "cudaHostAlloc": ("cudaHostAlloc", "hipHostMalloc"),
    "tensor": ("tensor", "matrix"),
    "Tensor": ("Tensor", "Matrix"),
    "SMs": ("SMs", "compute units"),
    "warp": ("warp", "wavefront"),
    "NsightCompute": ("Nsight Compute", "ROCm Compute Profiler (rocprof-compute)"),
    "NsightComputes": ("Nsight Compute's", "ROCm Compute Profiler's"),
    "CountersOfNvidia": (
        "no Nsight Compute counters",
        "no Nsight Compute counters, which exist for NVIDIA's GPUs only",
    ),
    "SampleTheCpu": ("nsys profile --sample=process-tree", "rocprof-sys-sample"),
    "RecordBacktraces": ("nsys profile --cudabacktrace=all", "rocprof-sys-sample"),
    "RecordItAll": (
        "# Nsight Systems: nsys profile --trace=cuda,nvtx,osrt python train.py",
        "# rocprofv3: rocprofv3 --sys-trace -- python train.py",
    ),
    "StartTheRecorder": (
        "\n# Nsight Systems: call torch.cuda.cudart().cudaProfilerStart() one or two steps before those that matter",
        "\n",
    ),
    "RecordATimeline": ("nsys profile --trace=cuda,nvtx", "rocprofv3 --sys-trace"),
    "GpuMonitor": ("nvidia-smi", "amd-smi"),
    "ClocksAndHeat": (
        "nvidia-smi -q -d CLOCK,TEMPERATURE,POWER,PERFORMANCE",
        "amd-smi metric --clock --temperature --power",
    ),
    "PowerLimit": ("nvidia-smi -pl WATTS", "amd-smi set --power-cap WATTS"),
    "ResetClocks": ("nvidia-smi --reset-gpu-clocks", "amd-smi reset --clocks"),
    "ResetMemoryClocks": ("nvidia-smi --reset-memory-clocks", "amd-smi reset --clocks"),
    "Topology": ("nvidia-smi topo -m", "rocm-smi --showtopo"),
    "LinkState": ("nvidia-smi -q, GPU Link Info", "amd-smi static --bus"),
    "OrLoadEagerly": (", or set CUDA_MODULE_LOADING=EAGER", ""),
    "AllowTf32": (
        "Let cuBLAS use TF32: cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH). Or use",
        "Use",
    ),
}
_OF_OTHERS = {
    "CUDA": "device",
    "CUDA_API": "runtime",
    "NVTX": "marked",
    "tensor": "matrix",
    "Tensor": "Matrix",
    "SMs": "cores",
    "NsightCompute": "the accelerator's own profiler",
    "NsightComputes": "the accelerator's own",
    "RecordItAll": "",
    "StartTheRecorder": "\n",
    "RecordATimeline": "the accelerator's profiler",
    "OrLoadEagerly": "",
}
_OF_CUDA = (Audience.NATIVE, Audience.ARRAYS)
_AS_HIP = regex(r"\Acuda(?=[A-Z])")
_TERM = regex(r"\$([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Text:
    """Words with terms in them; ``audiences``: for these readers only, or for all."""

    parts: tuple[str | Term, ...]
    audiences: tuple[Audience, ...] = ()

    def __add__(self, other: Words) -> Text:
        return replace(self, parts=(*self.parts, *_parts(other)))

    def __radd__(self, other: str) -> Text:
        return replace(self, parts=(other, *self.parts))


Words = str | Text


def ours(words: str) -> Text:
    """Words of ours, with terms as ``$NVTX`` or ``$cudaMemcpyAsync``. Nothing of a recording may be in it: add that."""
    found = _TERM.split(words)
    parts = (Term(each) if number % 2 else each for number, each in enumerate(found))
    return Text(tuple(part for part in parts if part))


def for_python(words: Words) -> Text:
    """For readers whose program is Python that builds on a framework."""
    return Text(_parts(words), tuple(each for each in Audience if each not in _OF_CUDA))


def for_pytorch(words: Words) -> Words:
    """For readers whose program is Python, but not JAX."""
    return without_jax(for_python(words))


def for_jax(words: Words) -> Text:
    """For readers whose program is JAX."""
    return Text(_parts(words), (Audience.JAX,))


def for_native(words: Words) -> Text:
    """For readers whose program is not Python, or calls CUDA's libraries from Python."""
    return Text(_parts(words), _OF_CUDA)


def with_native(
    native: Iterable[Words], advice: Iterable[Words], jax: Sequence[Words] = ()
) -> tuple[Words, ...]:
    """Advice of which some is for Python, after what takes its place for programs that are none.

    ``jax`` takes its place for programs of JAX, where it is given.
    """
    advice = tuple(advice)
    lacking = any(isinstance(each, Text) and _leaves_out_native(each) for each in advice)
    if not lacking:
        return advice
    told = (without_jax(each) for each in advice) if jax else advice
    return (*map(for_native, native), *map(for_jax, jax), *told)


def without_jax(words: Words) -> Words:
    """Words for Python as words for all Python but JAX."""
    if isinstance(words, str) or not _leaves_out_native(words):
        return words
    return replace(words, audiences=tuple(each for each in words.audiences if each is not Audience.JAX))


def _leaves_out_native(text: Text) -> bool:
    return bool(text.audiences) and Audience.NATIVE not in text.audiences


def listed_words(parts: Sequence[Words]) -> Words:
    """ "a", "a and b", "a, b and c"."""
    whole: Words = ""
    for number, part in enumerate(parts):
        whole = whole + ("" if not number else " and " if number == len(parts) - 1 else ", ") + part
    return whole


def said(words: Words, reader: Reader) -> str:
    """What a reader is told; nothing where it is meant for others."""
    if isinstance(words, str):
        return words
    if words.audiences and reader.audience not in words.audiences:
        return ""
    return "".join(part if isinstance(part, str) else part.said(reader.vendor) for part in words.parts)


def told(words: Iterable[Words], reader: Reader) -> tuple[str, ...]:
    """What is meant for a reader, in the order given."""
    return tuple(text for each in words if (text := said(each, reader)))


def _parts(words: Words) -> tuple[str | Term, ...]:
    return (words,) if isinstance(words, str) else words.parts
