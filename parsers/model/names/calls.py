"""What a call of CUDA, HIP, Unified Runtime, Level Zero or AscendCL does: launch, copy, block, allocate, load code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from parsers.model.arrays import U8
from parsers.model.derived import derived
from parsers.model.events import of_kinds
from parsers.model.lanes import EventKind
from parsers.model.late import regex
from parsers.model.names.per_name import distinct

if TYPE_CHECKING:
    from parsers.model.trace import Trace


class Call(IntEnum):
    """Classes of API calls; the order is the order in which names are tried."""

    OTHER = 0
    SYNCHRONIZE = 1
    ALLOCATE = 2
    GRAPH_LAUNCH = 3
    GRAPH_BUILD = 4
    LOAD = 5
    MEMSET = 6
    COPY = 7
    BLOCKING_COPY = 8
    LAUNCH = 9


# The "ptsz"/"_v2"/"_v7000" endings of per-thread-stream and versioned entry points are part of recorded names.
# XProf adds which graph is launched.
_ENDING = r"(_ptsz|_ptds|_v\d+|_spt)*( \([^()]*\))?$"
_PATTERNS = (
    (
        Call.SYNCHRONIZE,
        r"(cuda|hip)(Device|Stream|Event|Thread)Synchronize|cu(Ctx|Stream|Event)Synchronize|hipCtxSynchronize|"
        r"urEventWait|urQueueFinish|ze(Event|Fence)HostSynchronize|zeCommandQueueSynchronize|"
        r"AscendCL@aclrtSynchronize\w+|np\.(asarray|array)\(jax\.Array\)|(.*::)?Await\w*|.*Block(Host)?Until(Done|Ready)\w*|"
        r"(.*(\): |:\d+ ))?block_until_ready",
    ),
    (
        Call.ALLOCATE,
        r"(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|FreeHost|HostRegister|HostUnregister|MallocHost|"
        r"MallocManaged|MallocAsync|FreeAsync|MallocPitch|Malloc3D|MallocArray|FreeArray|ExtMallocWithFlags|"
        r"MallocFromPoolAsync|MemPoolTrimTo)|"
        r"cuMem(Alloc|Free|AllocHost|FreeHost|HostAlloc|HostRegister|HostUnregister|AllocManaged|AllocPitch|AllocAsync|"
        r"FreeAsync|PoolTrimTo|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree|AllocFromPoolAsync)|"
        r"hipMem(Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)|"
        r"AscendCL@aclrt(Malloc|Free)\w*|urUSM((Host|Device|Shared)Alloc|Free)|zeMem(Alloc(Host|Device|Shared)|Free)|"
        r"\w*Allocator::(Alloc|Dealloc)\w*|Build buffer allocations",
    ),
    (Call.GRAPH_LAUNCH, r"(cuda|cu|hip)GraphLaunch"),
    (Call.GRAPH_BUILD, r"(cuda|cu|hip)(Graph(Instantiate\w*|ExecUpdate|Upload)|StreamEndCapture)"),
    (
        Call.LOAD,
        r"(cu|hip)(Module(Load|Unload|LoadData|LoadDataEx|LoadFatBinary|GetFunction)|Library(Load\w*|GetKernel|Unload)|"
        r"Link(Create|AddData|AddFile|Complete))|hiprtcCompileProgram|(cuda|cu)(GetFuncBySymbol|KernelGetFunction)",
    ),
    (
        Call.MEMSET,
        r"(cuda|hip)Memset\w*|cuMemset\w*|hipMemset\w*|urEnqueue(USM|MemBuffer)Fill\w*|zeCommandListAppendMemoryFill",
    ),
    (
        Call.BLOCKING_COPY,
        r"(cuda|hip)Memcpy(2D|3D|Peer|ToSymbol|FromSymbol|DtoH|HtoD|DtoD)?|cuMemcpy(HtoD|DtoH|DtoD|2D|3D)?|"
        r"AscendCL@aclrtMemcpy",
    ),
    (
        Call.COPY,
        r"(cuda|hip)Memcpy\w*|cuMemcpy\w*|AscendCL@aclrtMemcpyAsync|(cuda|cu|hip)Mem(DiscardAnd)?Prefetch(Batch)?Async|urEnqueueUSMMemcpy\w*|"
        r"urEnqueueMem(Buffer|Image)(Copy|Read|Write)\w*|zeCommandListAppendMemoryCopy\w*",
    ),
    (
        Call.LAUNCH,
        r"(cuda|cu|hip)\w*Launch\w*|hipExtModuleLaunchKernel|hipHccModuleLaunchKernel|__hipPushCallConfiguration|"
        r"urEnqueueKernelLaunch\w*|zeCommandListAppendLaunch\w*|"
        r"AscendCL@(aclnn(?!\w*WorkspaceSize)\w+|aclop(CompileAnd)?Execute\w*|aclmdlExecute\w*)",
    ),
)
_COMPILED = tuple((call, regex(f"(?:{pattern}){_ENDING}")) for call, pattern in _PATTERNS)

# What PyTorch calls all the time, as the patterns have it: most small recordings hold no other calls, and compiling the
# patterns would take a hundredth of their diagnosis.
USUAL_CALLS = {
    "cudaDeviceSynchronize": Call.SYNCHRONIZE,
    "cudaStreamSynchronize": Call.SYNCHRONIZE,
    "cudaMalloc": Call.ALLOCATE,
    "cudaFree": Call.ALLOCATE,
    "cudaHostAlloc": Call.ALLOCATE,
    "cudaGraphLaunch": Call.GRAPH_LAUNCH,
    "cudaGetFuncBySymbol": Call.LOAD,
    "cudaMemsetAsync": Call.MEMSET,
    "cudaMemcpyAsync": Call.COPY,
    "cudaLaunchKernel": Call.LAUNCH,
    "cudaLaunchKernelExC": Call.LAUNCH,
    "cuLaunchKernel": Call.LAUNCH,
    "cuLaunchKernelEx": Call.LAUNCH,
    **dict.fromkeys(
        (
            "INVALID", "cudaDeviceGetAttribute", "cudaEventQuery", "cudaEventRecord",
            "cudaEventRecordWithFlags", "cudaFuncGetAttributes", "cudaFuncSetAttribute", "cudaGetErrorString",
            "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cudaPeekAtLastError",
            "cudaPointerGetAttributes", "cudaStreamIsCapturing", "cudaStreamWaitEvent",
            "cudaThreadExchangeStreamCaptureMode",
        ),
        Call.OTHER,
    ),
}  # fmt: skip

_STARTED = {
    EventKind.MEMSET: Call.MEMSET,
    EventKind.MEMCPY: Call.COPY,
    EventKind.GRAPH: Call.GRAPH_LAUNCH,
    EventKind.KERNEL: Call.LAUNCH,
}

# The first runs on a processor once the GPU gets there, the second only hands over what a launch after it is made with.
_NO_KERNEL = ("LaunchHostFunc", "CallConfiguration")

BLOCKING = (Call.SYNCHRONIZE, Call.ALLOCATE)
WORK_CALLS = (Call.GRAPH_LAUNCH, Call.MEMSET, Call.COPY, Call.BLOCKING_COPY, Call.LAUNCH)


# of the CUDA API, by the number of the error: those that launches of kernels return; below 98 also those of CUDA before
# 10.1, where they differ
_ERRORS = {
    1: "invalid value",
    2: "out of memory",
    7: "too many resources requested",
    8: "invalid device function",
    9: "invalid configuration",
    48: "no kernel image for this GPU",
    77: "illegal memory access",
    98: "invalid device function",
    209: "no kernel image for this GPU",
    222: "unsupported PTX version",
    700: "illegal memory access",
    701: "too many resources requested",
    719: "launch failure",
}


def error_text(code: int) -> str:
    """ "error 222 (unsupported PTX version)"; the number alone where its name is not known."""
    return f"error {code} ({_ERRORS[code]})" if code in _ERRORS else f"error {code}"


_HIP, _CUDA = regex(r"hip[A-Z]\w+\Z"), regex(r"cu(?:da)?[A-Z]\w+\Z")


def api_of(calls: Iterable[str]) -> str:
    """ "CUDA" or "HIP" by the names of calls; "API" where they are neither's."""
    names = tuple(calls)
    if any(map(_CUDA.match, names)):
        return "CUDA"
    return "HIP" if any(map(_HIP.match, names)) else "API"


def call_of(name: str) -> Call:
    """The class of an API call's name."""
    usual = USUAL_CALLS.get(name)
    return call_by_pattern(name) if usual is None else usual


def call_by_pattern(name: str) -> Call:
    """The same, whatever is usual."""
    return next((call for call, pattern in _COMPILED if pattern.match(name)), Call.OTHER)


def is_prefetch(name: str) -> bool:
    """Whether a call moves unified memory: it works on the CPU, on the tables of pages, and waits for nothing."""
    return "MemPrefetch" in name or "MemDiscardAndPrefetch" in name


def runs_a_kernel(launch: str) -> bool:
    """Whether a call of the class ``LAUNCH`` makes the GPU run something."""
    return not any(each in launch for each in _NO_KERNEL)


def launches_work(name: str) -> bool:
    """Whether a call launches a kernel or a graph."""
    call = call_of(name)
    return call is Call.GRAPH_LAUNCH or (call is Call.LAUNCH and runs_a_kernel(name))


@derived
def calls_of(trace: Trace) -> U8:
    """``Call`` for each string of the trace; OTHER for strings that name no API call.

    A call that bears another name, as XProf gives it that of its kernel, is known by what it started.
    """
    api = trace.events.of_kind(EventKind.API)
    table = np.zeros(len(trace.strings), np.uint8)
    for name in distinct(trace.events.name[api]).tolist():
        table[name] = call_of(trace.strings[name])
    started, by = trace.events.kind[trace.links.operation], trace.events.name[trace.links.launch]
    unnamed = of_kinds(table[by], Call.OTHER) & of_kinds(trace.events.kind[trace.links.launch], EventKind.API)
    for kind, call in _STARTED.items():
        table[by[unnamed & of_kinds(started, kind)]] = call
    table.flags.writeable = False
    return table
