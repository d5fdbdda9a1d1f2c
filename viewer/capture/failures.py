"""Known ways in which a recording fails, each with what it means and what mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from viewer.capture.request import Tool

COUNTER_PERMISSION_FIX = (
    "Run ncu as root (sudo), or allow it for everyone: write `options nvidia NVreg_RestrictProfilingToUsers=0` into "
    "/etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs and restart. In a container start it with "
    "--cap-add SYS_ADMIN. On Windows: NVIDIA Control Panel, Developer, allow access to the GPU counters."
)


class CaptureProblem(Exception):
    """A recording cannot start or gave nothing; ``problem`` says why in one sentence and ``fix`` what mends it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem} {fix}".strip())
        self.problem = problem
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Known:
    """A pattern in a tool's output and its explanation."""

    pattern: re.Pattern[str]
    problem: str
    fix: str
    tools: frozenset[Tool]


_ALL = frozenset(Tool)
_NCU = frozenset({Tool.NCU})
_NSYS = frozenset({Tool.NSYS})
_NSIGHT = _NCU | _NSYS


def _known(pattern: str, problem: str, fix: str, tools: frozenset[Tool] = _ALL) -> Known:
    return Known(re.compile(pattern, re.IGNORECASE), problem, fix, tools)


KNOWN = (
    _known(
        "ERR_NVGPUCTRPERM",
        "This user may not read the GPU's hardware counters (ERR_NVGPUCTRPERM).",
        COUNTER_PERMISSION_FIX,
        _NSIGHT,
    ),
    _known(
        r"LibraryNotLoaded|Cuda driver is not compatible with Nsight Compute|"
        r"driver.{0,40}(too old|incompatible|not supported)",
        "Nsight Compute cannot work with this machine's GPU driver.",
        "Use a driver of the same age as the tool or newer; sandboxes such as gVisor give no access to counters.",
        _NCU,
    ),
    _known(
        r"another (instance|profiler|tool)|CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|profiler is already (running|in use)",
        "Another profiler holds the GPU.",
        "End the other recording (nsys, ncu, DCGM, or a profiler inside the script) and start again.",
    ),
    _known(
        r"Found no NVIDIA driver|NVIDIA driver on your system is too old|libcuda\.so.{0,60}(not found|cannot open)|"
        r"driver version is insufficient",
        "There is no usable NVIDIA driver on this machine.",
        "Install or update the driver; `nvidia-smi` must list the GPU before anything can be recorded on it.",
    ),
    _known(
        r"No CUDA GPUs are available|no CUDA-capable device|CUDA_ERROR_NO_DEVICE|sees no CUDA device",
        "The program sees no GPU.",
        "Check CUDA_VISIBLE_DEVICES and, in a container, that it was started with --gpus all.",
    ),
    _known(
        r"Torch not compiled with CUDA enabled",
        "The torch of this interpreter is built without CUDA.",
        "Install a CUDA build of torch there, or pick the interpreter of the environment that has one.",
    ),
    _known(
        r"==WARNING== No kernels were profiled",
        "No kernel matched, so Nsight Compute profiled nothing.",
        "Check the kernel name, lower the number of launches to skip, or record the whole run.",
        _NCU,
    ),
    _known(
        r"unrecogni[sz]ed option|unrecogni[sz]ed argument|unknown option|invalid (option|value) .{0,40}--",
        "The installed tool does not know one of the options.",
        "Update it; the output names the option.",
        _NSIGHT,
    ),
    _known(
        r"No reports were generated|capture range.{0,60}(not|never)|range was not triggered",
        "The range to record was never reached.",
        "The program ended before the recorded steps, or never opened the named range: record by time instead.",
        _NSYS,
    ),
    _known(
        r"ModuleNotFoundError: No module named 'torch'",
        "This interpreter has no torch.",
        "Pick the environment that the script is usually run in.",
    ),
    _known(
        r"CUDA out of memory|OutOfMemoryError",
        "The GPU ran out of memory.",
        "Something else may use it (see nvidia-smi); recording memory, stacks or counters needs some too. Try a "
        "smaller batch only if nothing else helps, because it changes what is measured.",
    ),
    _known(
        r"No space left on device",
        "The disk is full.",
        "Choose another folder for the recording or record fewer steps.",
    ),
    _known(
        r"Permission denied \(publickey|Host key verification failed|Could not resolve hostname|"
        r"Connection (refused|timed out)",
        "ssh cannot reach the other machine without asking something.",
        "`ssh -o BatchMode=yes HOST true` must work: set up a key and accept the host's key once by hand.",
    ),
    _known(
        r"EOFError: EOF when reading a line",
        "The script waits for keyboard input.",
        "A recorded script gets no input: pass the answer as an argument.",
    ),
)


def explain(tool: Tool, output: str) -> tuple[str, str]:
    """Problem and fix for the first known failure in a tool's output, two empty texts when there is none."""
    for known in KNOWN:
        if tool in known.tools and known.pattern.search(output):
            return known.problem, known.fix
    return "", ""


def explain_ending(exit_code: int) -> tuple[str, str]:
    """Problem and fix for the way a process ended when its output says nothing known."""
    if exit_code in (-9, 137):
        return (
            "The program was killed.",
            "Usually the machine ran out of memory: record without stacks and memory, or fewer steps.",
        )
    if exit_code in (-11, 139):
        return (
            "The program crashed (segmentation fault).",
            "Run it once without recording; if it works, record less.",
        )
    if exit_code == 127:
        return "The command was not found.", "Check the path of the interpreter or program."
    return f"The program ended with exit code {exit_code}.", "Its output says why."
