"""What the events of XProf's host threads are: Python frames, calls, the runtime's own work, or the program's ranges.

XProf gives host events no category. Python frames begin with "$", and one of them is a call that waits; calls of CUDA
or HIP carry a correlation number and the name of the kernel that they launch; the rest are trace annotations, of which
the runtime of XLA writes very many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum

import numpy as np

from parsers.model import U8, EventKind, LaneKind
from parsers.model.late.regex import regex


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
