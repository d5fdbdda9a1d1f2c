"""Which thread made the calls that XProf keeps apart from its other events, as on "Host Threads/1083".

The calls of one thread are inside its own events, and closest to those in which it launches them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from itertools import islice

import numpy as np

from parsers.model import U8, EventKind, LaneKind
from parsers.model.arrays import BOOL, I64, in_both, median_of, rows_by
from parsers.model.late import regex
from parsers.model.nesting import depths


class HostEvent(IntEnum):
    """What a name says about a host event."""

    RANGE = 0  # an annotation of the program
    FRAME = 1  # a Python function
    CALL = 2  # of CUDA or HIP, or one in which the program waits for the device
    RUNTIME = 3  # inner work of XLA, PJRT or TensorFlow
    OPERATOR = 4  # what the program asked the runtime to do, such as to run a compiled function


PLACES = {
    HostEvent.RANGE: (LaneKind.REGION, EventKind.REGION),
    HostEvent.FRAME: (LaneKind.PYTHON, EventKind.PYTHON),
    HostEvent.CALL: (LaneKind.CUDA_API, EventKind.API),
    HostEvent.RUNTIME: (LaneKind.OTHER, EventKind.OTHER),
    HostEvent.OPERATOR: (LaneKind.CPU_THREAD, EventKind.CPU_OP),
}
_CALL = regex(
    r"(cu|cuda|hip)[A-Z]\w+( \(CudaGraph:\d+\))?$|np\.(asarray|array)\(jax\.Array\)$|(.*::)?Await(Block|Ready)?\w*$|"
    r".*Block(Host)?Until(Done|Ready)\w*$|block_until_ready$|\w*Allocator::(Alloc|Dealloc)\w*$|"
    r"Build buffer allocations$"
)
_WAITING_FRAME = regex(r"\$.*:\d+ block_until_ready$")
_COMPILED_KERNEL = ".kd"  # what AMD's compiler appends to a kernel's name
_OPERATOR = regex(r"PjitFunction\(|(batched_)?[Dd]evice_?[Pp]ut\w*$|TfOp")
_RUNTIME = regex(
    r".*::|.*(?i:pjrt|pjit|xla|thunk|tsl|tensorflow)|jit_\w+:|\[\d+\] |(command_buffer|fusion|copy|while|conditional|"
    r"call)[._]?\d*$|(D2H|H2D|D2D) |end: |<UNKNOWN>$|BUFFER_FLUSH|Memory(Allocation|Deallocation)$|ParseArguments$|"
    r"(Handle|Resolve|Build|Wait for|Copy|Create|Compute|Get|Initialize|Destroy|Start|Stop|Transfer|Linearize|Schedule|"
    r"Prepare|Release|Acquire|Run|Execute|Launch|Enqueue)[A-Z ][\w ]*(\[.*\])?$|"
    r"shard_args$|Then[A-Z]\w+|Allocate\w*$|[a-z][a-z0-9_-]*\.\d+$|custom-call|BufferFromHost|Transpose|ToLiteral|PythonRefManager|"
    r"(backend_)?compile\w*$|(trace|lower)_\w+$|RecordUsage$|MakeOutputBuffers$|\w+_fusion(_\d+)?$|Executor[A-Z]\w+$|"
    r"Eager\w{0,40}(Execute|Copy)\w{0,40}(:.*| \d+)?$|TFE_\w+$|"
    r"RemoteCall\w*(:.*)?$|FunctionRun$|_(Host)?(Send|Recv|send_.*)$|_(Arg|Retval)$|Prefetch(Produce|Consume)$"
)


def host_events(names: Sequence[str], operations: Collection[str]) -> U8:
    """``HostEvent`` for each name; ``operations`` are names of GPU operations, which the runtime's work bears too."""
    found = np.zeros(len(names), np.uint8)
    kernels = {name.removesuffix(_COMPILED_KERNEL) for name in operations}
    for index, name in enumerate(names):
        if name.startswith("$"):
            found[index] = HostEvent.CALL if _WAITING_FRAME.match(name) else HostEvent.FRAME
        elif _CALL.match(name):
            found[index] = HostEvent.CALL
        elif _OPERATOR.match(name):
            found[index] = HostEvent.OPERATOR
        elif name in kernels or _RUNTIME.match(name):
            found[index] = HostEvent.RUNTIME
    return found


_FRAME = regex(r"\$(?P<file>.+):(?P<line>\d+) (?P<function>.+)$")


def frame_name(name: str) -> str:
    """A Python frame as other recorders write it: "train.py(19): step" for "$train.py:19 step"."""
    frame = _FRAME.match(name)
    return f"{frame['file']}({frame['line']}): {frame['function']}" if frame else name.removeprefix("$")


MAX_PAIRS = 1_000  # of threads that call and threads that may have: recordings have some dozens
MAX_LEVELS = 200  # of events inside one another that are looked at
MIN_INSIDE_SHARE = 0.9  # of a thread's calls: clocks are read twice, and some calls are made by other parts


def owners_of_calls(start: I64, end: I64, thread: I64, is_call: BOOL, is_work: BOOL) -> dict[int, int]:
    """The thread that made the calls of each thread that has nothing but calls; absent where none can be told.

    ``thread`` numbers threads; ``is_work`` marks the events of the runtime, whose innermost ones make calls.
    """
    working, calling = (np.flatnonzero(which) for which in (is_work, is_call))
    both = set(in_both(thread[working], thread[calling]).tolist())
    callers = [(each, calling[rows]) for each, rows in rows_by(thread[calling]) if each not in both]
    candidates = [(each, working[rows]) for each, rows in rows_by(thread[working]) if each not in both]
    if len(callers) * len(candidates) > MAX_PAIRS:
        return {}
    levels = [_levels(start[rows], end[rows]) for _, rows in candidates]
    found: dict[int, int] = {}
    for each, mine in callers if candidates else ():
        middle = (start[mine] + end[mine]) // 2
        closest = [_typical_surrounding(its, middle) for its in levels]
        best = int(np.argmin(closest))
        if closest[best] < np.inf:
            found[each] = candidates[best][0]
    return found


def _levels(start: I64, end: I64) -> list[tuple[I64, I64]]:
    """Starts and ends of nested events, those inside no other first."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    return [(start[rows], end[rows]) for _, rows in islice(rows_by(depths(start, end)), MAX_LEVELS)]


def _typical_surrounding(levels: list[tuple[I64, I64]], moments: I64) -> float:
    """Median duration of the innermost events around these moments, ns; inf where too few are inside any."""
    length = np.full(len(moments), np.inf)
    for begins, ends in levels:
        place = np.searchsorted(begins, moments, side="right") - 1
        inside = (place >= 0) & (moments < ends[np.maximum(place, 0)])
        length[inside] = (ends - begins)[place[inside]]
    inside_any = np.isfinite(length)
    if not len(moments) or inside_any.mean() < MIN_INSIDE_SHARE:
        return float("inf")
    return float(median_of(length[inside_any]))
