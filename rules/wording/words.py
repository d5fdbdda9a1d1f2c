"""Words of ours that depend on who reads them, headlines, and sentences that several findings share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from parsers.model import EventKind, Trace
from parsers.model.late import dataclass, regex
from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
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
_QUALIFIED = regex(r"[\w{}]{1,200}(?:::[\w{}]{1,200}){1,40}")
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


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the analysed time; of ``steps`` steady steps, ``few`` hold it (0: many share it).

    ``with_delays`` is that part with what it delays, 0 where that is no more; ``without_profiler`` says that it is a
    part of the time without what the profiler took.
    """

    share: float
    steps: int
    few: int = 0
    with_delays: float = 0.0
    without_profiler: bool = False

    @property
    def is_of_a_step(self) -> bool:
        """Whether it is told as a part of each step."""
        return self.steps > 0 and not self.few

    def __str__(self) -> str:
        """ "57 % of every step", "57 % of the recorded time" without steps, or "30 % of the time, in 2 of 12 steps".

        "3.0 % of every step, 40 % with delays" where what it delays is part of it.
        """
        if self.few:
            return f"{percent(self.share)} of the time, in {self.few} of {self.steps} steps"
        if not self.steps:
            whole = "of the recorded time" if not self.without_profiler else "without the profiler"
            return f"{percent(self.share)} {whole}{self._delays}"
        return f"{percent(self.share)} of {'every' if self.steps > 1 else 'the'} step{self._delays}"

    @property
    def in_short(self) -> str:
        """ "57 %", or "3.0 %, 40 % with delays": of what is known already."""
        return f"{percent(self.share)}{self._delays}"

    @property
    def _delays(self) -> str:
        return f", {percent(self.with_delays)} with delays" if self.with_delays else ""


@dataclass(frozen=True, slots=True)
class Headline:
    """``subject`` is a name from the recording that stands in front; ``amount`` a part of the time, or other words."""

    what: Words
    amount: Part | str = ""
    subject: str = ""
    names_culprit: bool = False

    def said(self, reader: Reader) -> str:
        return self._put_together(said(self.what, reader), str(self.amount))

    def beside_its_cost(self, reader: Reader) -> str:
        """The title without a share of the step that stands beside it in a table."""
        of_a_step = isinstance(self.amount, Part) and self.amount.is_of_a_step
        return self._put_together(said(self.what, reader), "" if of_a_step else str(self.amount))

    def in_short(self, reader: Reader) -> str:
        """The title with its share of a step alone, "The GPU waits for Python: 57 %", where that is what it tells."""
        amount = self.amount
        share = amount.in_short if isinstance(amount, Part) and amount.is_of_a_step else str(amount)
        return self._put_together(said(self.what, reader), share)

    def matter(self, reader: Reader) -> str:
        """What happens, without how much of it, inside a sentence."""
        return replace(self, amount="").inside_a_sentence(reader)

    def inside_a_sentence(self, reader: Reader) -> str:
        """The title without its capital; names and abbreviations such as GPU keep theirs."""
        what = said(self.what, reader)
        if not self.subject and what[1:2].islower():
            what = what[:1].lower() + what[1:]
        return self._put_together(what, str(self.amount))

    def _put_together(self, what: str, amount: str) -> str:
        return ": ".join(each for each in (self.subject, what, amount) if each)


def of_every_step(analysis: Analysis, share: float) -> Part:
    """ "57 % of every step", or "of the recorded time" where no steps were found."""
    return Part(share, analysis.steps_in_window)


def part_of_step(analysis: Analysis, ns: float) -> str:
    """ "26.5 of the 46.4 ms of a step": an amount of the window and the window, both for one step."""
    return part_of_steps(ns, analysis.window_ns, analysis.steps_in_window)


def part_of_steps(ns: float, window_ns: float, steps: int, step: str = "a step") -> str:
    """The same of a window of so many steps; 0 where none were found."""
    return f"{part_of(ns / steps, window_ns / steps)} of {step}" if steps else part_of(ns, window_ns, "of")


def part_of(part_ns: float, whole_ns: float, of: str = "of the") -> str:
    """ "26.5 of the 46.4 ms": the unit stands once where both have the same."""
    part, whole = duration(part_ns), duration(whole_ns)
    unit = f" {whole.rpartition(' ')[2]}"
    return f"{part.removesuffix(unit)} {of} {whole}"


def counted(analysis: Analysis, count: float, singular: str, plural: str = "", *, verb: str = "") -> str:
    """ "147 kernels a step": a count of the whole window, for one step; "1 kernel in 3 steps" where it is rare.

    With a ``verb``, "147 kernels a step run" and "1 kernel a step runs".
    """
    steps = analysis.steps_in_window
    each = count / max(steps, 1)
    rare = steps > 1 and 0 < each < 0.95
    number = (
        f"{count if rare else each:,.0f}"
        if rare or each >= 9.95 or each == round(each)
        else three_digits(each)
    )
    noun = singular if number == "1" else plural or f"{singular}s"
    told = f"{number} {noun}" + (f" in {steps} steps" if rare else " a step" if steps else "")
    return f"{told} {verb}{'s' if number == '1' else ''}" if verb else told


def times_said(count: float) -> str:
    """ "once", or "3 times" of about so many."""
    return "once" if round(count) == 1 else f"{count:,.0f} times"


def share(analysis: Analysis, ns: float) -> float:
    """A fraction of the analysed window."""
    return ns / analysis.window_ns if analysis.window_ns > 0 else 0.0


def without_times(count: int) -> str:
    """Of GPU activities that the profiler recorded with neither a start nor a duration."""
    if count == 1:
        return "1 GPU activity was recorded without its time"
    return f"{count:,} GPU activities were recorded without their times"


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def number_of_cores(count: int) -> str:
    """ "one core" or "4 cores"."""
    return f"{count:,} cores" if count != 1 else "one core"


def in_a_step(analysis: Analysis, ns: float) -> str:
    """ "11.1 ms": an amount of the window, as recorded, for one step; all of it where no steps were found."""
    return duration(ns / max(analysis.steps_in_window, 1))


def a_step(ns: float, steps: int) -> str:
    """ "11.1 ms a step": an amount of so many steps; all of it, without a word, where none were found."""
    return f"{duration(ns / steps)} a step" if steps else duration(ns)


def amounts(analysis: Analysis, parts: Iterable[tuple[str, int]], most: int, least: float = 0.0005) -> str:
    """ "forward (11.1 ms), backward (1.44 ms)": the first parts of a step that are no rounding error.

    As recorded, like the sum that they are parts of; a share of a step is told of one without the recorder.
    """
    worth = [f"{name} ({in_a_step(analysis, ns)})" for name, ns in parts if share(analysis, ns) >= least]
    return listed(worth[:most])


def shortened(name: str, most: int = 60) -> str:
    """A name of at most this many characters; one that is qualified is told by its end, which is what it is called."""
    if len(name) > most and _QUALIFIED.fullmatch(name) is not None:
        parts = name.split("::")
        ends = (f"…::{'::'.join(parts[at:])}" for at in range(1, len(parts)))
        return next((each for each in ends if len(each) <= most), f"{name[: most - 1]}…")
    return name if len(name) <= most else f"{name[: most - 1]}…"


def short_place(place: str) -> str:
    """ "train.py:21" of a path with its folders."""
    return place.replace("\\", "/").rpartition("/")[2]


def without_stacks(trace: Trace, words: Words) -> Words:
    """The words, or none where Python's stacks were recorded."""
    return "" if has_stacks(trace) else words


def has_stacks(trace: Trace) -> bool:
    """Whether Python's stacks were recorded: the recording says so, or says nothing and has frames."""
    stated = trace.capture.with_stack
    return EventKind.PYTHON in trace.kinds if stated is None else stated
