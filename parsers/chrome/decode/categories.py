"""What each event category of every profiler generation stands for."""

from __future__ import annotations

from enum import Enum

from parsers.model import EventKind, LaneKind
from parsers.model.late import dataclass, regex


class Where(Enum):
    """How an event's lane is found."""

    THREAD = 0  # pid and tid
    STREAM = 1  # args.device and args.stream
    NOWHERE = 2  # a bookkeeping event that is not shown


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of event and the lanes it goes to."""

    where: Where
    lane: LaneKind
    kind: EventKind


CPU_OP = Family(Where.THREAD, LaneKind.CPU_THREAD, EventKind.CPU_OP)
REGION = Family(Where.THREAD, LaneKind.REGION, EventKind.REGION)
PYTHON = Family(Where.THREAD, LaneKind.PYTHON, EventKind.PYTHON)
API = Family(Where.THREAD, LaneKind.CUDA_API, EventKind.API)
OVERHEAD = Family(Where.THREAD, LaneKind.OVERHEAD, EventKind.OVERHEAD)
OS_RUNTIME = Family(Where.THREAD, LaneKind.OS_RUNTIME, EventKind.OS_RUNTIME)
STEPS = Family(Where.THREAD, LaneKind.STEPS, EventKind.STEP)
SAMPLED_STACKS = Family(Where.THREAD, LaneKind.SAMPLED_STACKS, EventKind.SAMPLED_FRAME)
SAMPLES = Family(Where.THREAD, LaneKind.SAMPLES, EventKind.SAMPLE)
KERNEL = Family(Where.STREAM, LaneKind.GPU_STREAM, EventKind.KERNEL)
MEMCPY = Family(Where.STREAM, LaneKind.GPU_STREAM, EventKind.MEMCPY)
MEMSET = Family(Where.STREAM, LaneKind.GPU_STREAM, EventKind.MEMSET)
GRAPH = Family(Where.STREAM, LaneKind.GPU_STREAM, EventKind.GRAPH)
GPU_REGION = Family(Where.STREAM, LaneKind.GPU_REGION, EventKind.GPU_REGION)
GPU_SYNC = Family(Where.STREAM, LaneKind.OTHER, EventKind.GPU_SYNC)
BOOKKEEPING = Family(Where.NOWHERE, LaneKind.OTHER, EventKind.OTHER)
OTHER = Family(Where.THREAD, LaneKind.OTHER, EventKind.OTHER)

KERNELS_WITH_COUNTERS = "cuda_profiler_range"  # Kineto: one kernel each, of equal made-up lengths
_FAMILIES = {
    "cpu_op": CPU_OP,
    "operator": CPU_OP,
    "hpu_op": CPU_OP,
    "user_annotation": REGION,
    "python_function": PYTHON,
    "python": PYTHON,
    "fee": PYTHON,  # VizTracer: function entry and exit
    "runtime": API,
    "cuda_runtime": API,
    "cuda_driver": API,
    "cuda_api": API,
    KERNELS_WITH_COUNTERS: REGION,
    "nvtx": REGION,
    "osrt": OS_RUNTIME,
    "profiler_step": STEPS,  # our own export, as are the three below
    "cpu_sample": SAMPLES,
    "sampled_frame": SAMPLED_STACKS,
    "gpu_graph": GRAPH,  # a CUDA graph recorded as one operation
    "overhead": OVERHEAD,
    "kernel": KERNEL,
    "concurrent_kernel": KERNEL,
    "mtia_ccp_events": KERNEL,
    "nvtx-kernel": GPU_REGION,
    "gpu_memcpy": MEMCPY,
    "memcpy": MEMCPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "gpu_user_annotation": GPU_REGION,
    "collective_comm": GPU_REGION,
    "cuda_sync": GPU_SYNC,
    "cuda_event": GPU_SYNC,
    "trace": BOOKKEEPING,
    "trace span": BOOKKEEPING,
}
_API = regex(r"(^|_)(runtime|driver)$")


PROFILER_PROCESSES = ("Spans", "Traces", "")  # where Kineto puts its own markers, as if they were processes


def family_of(category: str | None) -> Family:
    """The family of a category; an unknown category is shown on a lane of its thread."""
    if category is None:
        return OTHER
    name = category.lower()
    if (found := _FAMILIES.get(name)) is not None:
        return found
    return API if _API.search(name) else OTHER
