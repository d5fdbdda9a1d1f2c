"""Lanes, devices and ranks: where events happened."""

from __future__ import annotations

from enum import Enum, IntEnum

from parsers.model.late import dataclass


class LaneKind(Enum):
    """What a lane shows; the order is the order of lanes inside one process or device.

    A kind is its name wherever it is stored, so that a new one can be put where it belongs.
    """

    STEPS = "steps"
    REGION = "region"  # record_function / NVTX ranges of one thread
    CPU_THREAD = "cpu_thread"  # operators of one thread
    PYTHON = "python"  # Python frames of one thread
    CUDA_API = "cuda_api"  # runtime and driver calls of one thread
    OS_RUNTIME = "os_runtime"
    SAMPLES = "samples"  # CPU samples
    COMPILATION = "compilation"  # what torch.compile compiled, and where it gave up a graph
    SAMPLED_STACKS = "sampled_stacks"  # calls of one thread, as samples of its stack show them
    SERVED = "served"  # requests that an inference server answered, one after the other
    INSIDE_KERNEL = "inside_kernel"  # parts of one kernel, as one warp of a multiprocessor runs them
    FLIGHT_RECORDER = "flight_recorder"  # collectives of one process group as a rank called them
    OVERHEAD = "overhead"  # the profiler's own work
    GPU_REGION = "gpu_region"  # annotations projected on a stream
    GPU_STREAM = "gpu_stream"  # every operation of one stream
    NCCL = "nccl"  # a stream that mostly runs collectives
    COPY = "copy"  # a stream that only copies
    MEMORY = "memory"
    OTHER = "other"

    def __init__(self, _: str) -> None:
        self._rank = len(type(self).__members__)

    def __lt__(self, other: LaneKind) -> bool:
        return self._rank < other._rank


GPU_LANES = frozenset({LaneKind.GPU_STREAM, LaneKind.NCCL, LaneKind.COPY})
# recorded by themselves, beside a timeline of the same rank
BESIDE_LANES = frozenset(
    {
        LaneKind.FLIGHT_RECORDER,
        LaneKind.COMPILATION,
        LaneKind.SAMPLED_STACKS,
        LaneKind.SERVED,
        LaneKind.INSIDE_KERNEL,
    }
)


class EventKind(IntEnum):
    """What one event is; one byte a row of the event table."""

    OTHER = 0
    CPU_OP = 1
    PYTHON = 2
    API = 3  # runtime or driver call
    REGION = 4  # record_function, NVTX push/pop or start/end
    STEP = 5  # ProfilerStep#N and the like
    MARK = 6  # an instant
    KERNEL = 7
    MEMCPY = 8
    MEMSET = 9
    GRAPH = 10  # a CUDA graph recorded as one opaque operation
    GPU_SYNC = 11  # a synchronisation as the device saw it: shown, not busy
    GPU_REGION = 12
    OVERHEAD = 13
    OS_RUNTIME = 14
    SAMPLE = 15
    SAMPLED_FRAME = 16  # a call that neighbouring samples of a stack share


AUTOGRAD = "Autograd thread"  # what parsers call such a thread, before its number
GPU_WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.GRAPH)


@dataclass(frozen=True, slots=True)
class Lane:
    """One horizontal track.

    ``process`` and ``thread`` are the recorded ids (thread ids of one process are unique per rank);
    ``device`` and ``stream`` are set on GPU lanes. ``device`` is the index into ``Trace.devices``.
    """

    kind: LaneKind
    name: str
    rank: int | None = None
    process: int | None = None
    thread: int | None = None
    device: int | None = None
    stream: int | None = None
    process_name: str = ""

    @property
    def is_gpu(self) -> bool:
        return self.kind in GPU_LANES

    @property
    def is_autograd(self) -> bool:
        """Whether PyTorch's engine computes gradients on this thread, for another one that waits for them."""
        return self.name.startswith(AUTOGRAD)


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as one rank sees it; ``id`` is the recorded device number."""

    id: int
    name: str = ""
    rank: int | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    memory_bandwidth: float | None = None  # bytes per second, as the recording states it
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Ranks that communicate with one another, as a recording states them; ``ranks`` is empty where it does not."""

    name: str
    description: str = ""  # what the program calls it, such as "TENSOR_MODEL_PARALLEL_GROUP"
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a distributed run."""

    rank: int
    world_size: int | None = None
    host: str = ""
    clock_error_ns: int | None = None  # uncertainty of this rank's clock against the first rank
    groups: tuple[ProcessGroup, ...] = ()  # those that it belongs to


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The line of the program's own code that calls what has a ``name``, so many times, as the recorder saw it."""

    name: str
    file: str
    line: int
    function: str
    count: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What the recording says about how it was made; None where it does not say."""

    with_stack: bool | None = None
    profile_memory: bool | None = None
    record_shapes: bool | None = None
    has_cpu_events: bool = False
    has_api_calls: bool = False
    graph_mode_opaque: bool = False
    places: tuple[CallPlace, ...] = ()
    cores: int | None = None  # that the process could use
    threads: int | None = None  # that an operator of PyTorch starts on them


@dataclass(frozen=True, slots=True)
class TraceInput:
    """One file that went into the trace; ``path`` is what to call it.

    ``file`` is where it lies, ``state`` its size in bytes and modification time in ns when it was read; empty and None
    for a member of an archive.
    """

    path: str
    format: str
    producer: str
    rank: int | None = None
    file: str = ""
    state: tuple[int, int] | None = None
