"""The fixed vocabulary of findings, and all that other modules ask of a category: adding one is a line here."""

from __future__ import annotations

from enum import Enum, StrEnum, auto

from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family


class NextRecording(Enum):
    """Which recording tells what this one cannot."""

    KERNEL_COUNTERS = auto()  # of the kernel that takes longest
    STACKS = auto()
    MEMORY = auto()
    WITHOUT_EXTRAS = auto()  # neither stacks nor memory
    LATER_STEPS = auto()


@dataclass(frozen=True, slots=True)
class _Traits:
    about: Cause | Family | None = None
    own_cause: bool = False
    accuses: bool = True
    next_recording: NextRecording | None = None


class Category(StrEnum):
    """What kind of loss a finding speaks of; timeline first, then kernel counters. The value stands in results.

    ``about`` is the cause of idle time or the kernel family whose colour it has. ``own_cause``: a call, a region or a
    rank can be named for it, so it comes before launch overhead that is about as large. A category that does not
    accuse says how things are and is never the verdict's problem.
    """

    about: Cause | Family | None
    own_cause: bool
    accuses: bool
    next_recording: NextRecording | None

    def __new__(cls, value: str, traits: _Traits = _Traits()) -> Category:  # noqa: B008 - it is frozen
        member = str.__new__(cls, value)
        member._value_ = value
        member.about, member.own_cause = traits.about, traits.own_cause
        member.accuses, member.next_recording = traits.accuses, traits.next_recording
        return member

    @property
    def label(self) -> str:
        return self.value.replace("-", " ")

    INPUT_BOUND = "input-bound", _Traits(Cause.INPUT, own_cause=True, next_recording=NextRecording.STACKS)
    HOST_BOUND = "host-bound", _Traits(Cause.HOST, own_cause=True, next_recording=NextRecording.STACKS)
    LAUNCH_BOUND = "launch-bound", _Traits(Cause.LAUNCH)
    SYNCHRONIZATION = (
        "synchronization",
        _Traits(Cause.SYNCHRONIZATION, own_cause=True, next_recording=NextRecording.STACKS),
    )
    COPY_H2D = "copy-h2d", _Traits(Family.COPY, own_cause=True)
    COPY_D2H = "copy-d2h", _Traits(Family.COPY, own_cause=True)
    ALLOCATOR = "allocator", _Traits(Cause.ALLOCATOR, own_cause=True, next_recording=NextRecording.MEMORY)
    EXPOSED_COMMUNICATION = "exposed-communication", _Traits(Family.COLLECTIVE)
    COMMUNICATION_LATENCY = "communication-latency", _Traits(Family.COLLECTIVE, own_cause=True)
    STRAGGLER = "straggler", _Traits(Family.COLLECTIVE, own_cause=True)
    HANG = "hang", _Traits(Family.COLLECTIVE, own_cause=True)
    PIPELINE_BUBBLE = "pipeline-bubble", _Traits(Cause.NEIGHBOURS, own_cause=True)
    LOAD_IMBALANCE = "load-imbalance", _Traits(Family.COLLECTIVE, own_cause=True)
    MEMORY_BOUND_KERNELS = (
        "memory-bound-kernels",
        _Traits(Family.ELEMENTWISE, next_recording=NextRecording.KERNEL_COUNTERS),
    )
    NO_TENSOR_CORES = ("no-tensor-cores", _Traits(Family.GEMM, next_recording=NextRecording.KERNEL_COUNTERS))
    LAYOUT_CONVERSION = "layout-conversion", _Traits(Family.ELEMENTWISE)
    GEMM_SHAPE = "gemm-shape", _Traits(Family.GEMM, next_recording=NextRecording.KERNEL_COUNTERS)
    SLOW_OPERATOR = (
        "slow-operator",
        _Traits(Family.ELEMENTWISE, next_recording=NextRecording.KERNEL_COUNTERS),
    )
    RECOMPUTATION = "recomputation", _Traits(Family.ELEMENTWISE)  # what was computed before, or will be anew
    WARM_UP = "warm-up", _Traits(next_recording=NextRecording.LATER_STEPS)
    RECOMPILATION = "recompilation", _Traits(Cause.HOST, own_cause=True, next_recording=NextRecording.STACKS)
    GRAPH_BREAK = "graph-break", _Traits(Cause.LAUNCH, own_cause=True)
    EVALUATION = "evaluation", _Traits(own_cause=True)
    VARIABILITY = "variability", _Traits(next_recording=NextRecording.LATER_STEPS)
    THROTTLING = "throttling", _Traits(own_cause=True)
    SLOW_MEMORY = "slow-memory", _Traits(own_cause=True)
    RECORDING_OVERHEAD = (
        "recording-overhead",
        _Traits(accuses=False, next_recording=NextRecording.WITHOUT_EXTRAS),
    )
    MEMORY_PEAK = "memory-peak", _Traits(next_recording=NextRecording.MEMORY)
    MEMORY_GROWTH = (
        "memory-growth",
        _Traits(Cause.ALLOCATOR, own_cause=True, next_recording=NextRecording.MEMORY),
    )
    OUT_OF_MEMORY = "out-of-memory", _Traits(Cause.ALLOCATOR, own_cause=True)
    UNEXPLAINED_IDLE = "unexplained-idle"
    WHAT_WAS_RECORDED = (
        "what-was-recorded",
        _Traits(accuses=False, next_recording=NextRecording.LATER_STEPS),
    )
    GPU_BOUND = (
        "gpu-bound",
        _Traits(Family.GEMM, accuses=False, next_recording=NextRecording.KERNEL_COUNTERS),
    )
    PACED = "paced", _Traits(Cause.HOST, accuses=False)  # the program sleeps until its next round
    KERNEL_LIMITS = (
        "kernel-limits",
        _Traits(Family.GEMM, accuses=False, next_recording=NextRecording.KERNEL_COUNTERS),
    )
    MEMORY_BOUND = "memory-bound", _Traits(Family.COPY)
    COMPUTE_BOUND = "compute-bound", _Traits(Family.GEMM)
    LATENCY_BOUND = "latency-bound", _Traits(Cause.HOST)
    BALANCED = "balanced", _Traits(Family.ATTENTION)
    UNCOALESCED_ACCESS = "uncoalesced-access", _Traits(Family.COPY)
    BANK_CONFLICTS = "bank-conflicts", _Traits(Family.NORMALISATION)
    DIVERGENCE = "divergence", _Traits(Family.OPTIMIZER)
    LOW_OCCUPANCY = "low-occupancy", _Traits(Cause.INPUT)
    SMALL_GRID = "small-grid", _Traits(Cause.LAUNCH)
    TAIL_EFFECT = "tail-effect", _Traits(Cause.LAUNCH)
    REGISTER_SPILL = "register-spill", _Traits(Cause.ALLOCATOR)
    LOCAL_MEMORY = "local-memory", _Traits(Cause.ALLOCATOR)
    ATOMICS = "atomics", _Traits(Cause.SYNCHRONIZATION)
    BARRIER_STALL = "barrier-stall", _Traits(Cause.SYNCHRONIZATION)
    FP64 = "fp64", _Traits(Family.ATTENTION)
    PIPE_SATURATED = "pipe-saturated", _Traits(Family.GEMM)
    CACHE_MISSES = "cache-misses", _Traits(Family.COPY)
    IMBALANCE = "imbalance", _Traits(Family.OPTIMIZER)
