"""Warnings before a recording starts: what will be slow, large, or measure something else than production."""

from __future__ import annotations

import re

from parsers.model.late import regex
from viewer.capture.request import CaptureRequest, NcuOptions, Tool

PASSES = {"basic": 10, "detailed": 20, "full": 38, "roofline": 17}
"""How often each kernel is replayed per section set; measured with ncu 2025.3.1 on an H200."""
SECONDS_PER_PASS = 0.04
"""What one replay of a short kernel costs with saving and restoring memory; measured there too (112 passes in 5 s)."""
MANY_STEPS = 50
LONG_RECORDING_S = 120.0
_BATCH = regex(
    r"^-{1,2}(per[-_]device[-_])?(train[-_])?(micro[-_])?(batch[-_]?size|bs|b)(=|$)", re.IGNORECASE
)


def passes_estimate(options: NcuOptions) -> int:
    """About how many times each profiled kernel runs."""
    return PASSES.get(options.section_set, PASSES["full"])


def seconds_estimate(options: NcuOptions) -> float | None:
    """About how much longer the program takes; ``None`` when the number of launches is not limited."""
    if not options.launch_count:
        return None
    return options.launch_count * passes_estimate(options) * SECONDS_PER_PASS


def warnings(request: CaptureRequest) -> list[str]:
    """What a person should know before starting, each one sentence with what to do instead."""
    found = _ncu_warnings(request) if request.tool is Tool.NCU else []
    if request.tool is Tool.TORCH:
        found += _torch_warnings(request)
    if request.tool is Tool.NSYS:
        found += _nsys_warnings(request)
    found += _window_warnings(request)
    if any(_BATCH.match(word) for word in request.target.arguments):
        found.append(
            "A batch size is set by hand: use the one from production. A smaller one makes launches and input look "
            "worse, and kernels better, than they are."
        )
    return found


def _torch_warnings(request: CaptureRequest) -> list[str]:
    found = []
    if request.torch.stacks:
        found.append(
            "Stacks make every Python call slower: the GPU will look more starved than it is. Use them to find who "
            "does what, not to measure how long it takes."
        )
    if request.torch.memory:
        found.append(
            "Memory recording adds an event and a Python stack per allocation, and saves a snapshot of the allocator "
            "beside the trace: expect slower steps, about 200 MB more of the program's memory, and larger files."
        )
    if request.torch.shapes and request.window.active > 10:
        found.append("Shapes are kept for every operator: a few steps are enough.")
    return found


def _nsys_warnings(request: CaptureRequest) -> list[str]:
    found = [
        "The report contains the program's environment variables, including secrets: check it before you share it."
    ]
    if "osrt" in request.nsys.traces:
        found.append(
            "A Python program makes millions of operating-system calls: the report can reach gigabytes."
        )
    if request.nsys.graph_mode == "node":
        found.append(
            "Node by node tracing slows CUDA graphs down a lot; graph mode shows each graph as one block."
        )
    if request.nsys.gpu_metrics:
        found.append("GPU metrics need the permission to read hardware counters.")
    return found


def _ncu_warnings(request: CaptureRequest) -> list[str]:
    options, found = request.ncu, []
    if options.section_set == "full":
        found.append(
            f"The full set replays each kernel about {PASSES['full']} times; detailed needs about "
            f"{PASSES['detailed']} and answers most questions."
        )
    seconds = seconds_estimate(options)
    if seconds is None:
        found.append(
            "Every launch is profiled, each replayed many times: a run of minutes becomes one of hours. "
            "Limit the launches."
        )
    elif seconds > 60:
        found.append(f"About {seconds / 60:.0f} minutes are added for the replays.")
    if options.keep_clocks:
        found.append("Clocks are left free: times are as in production, but vary from launch to launch.")
    if request.target.launcher:
        found.append(
            "Replaying a kernel of one rank while others wait in a collective can hang: record one process, or "
            "choose a kernel that is not a collective."
        )
    return found


def _window_warnings(request: CaptureRequest) -> list[str]:
    window, found = request.window, []
    if window.steps != "whole" and window.skip_first + window.wait + window.warmup == 0:
        found.append(
            "No warm-up is skipped: compilation, caches and allocations of the first steps will be in the recording."
        )
    if window.steps != "whole" and window.active * window.repeat > MANY_STEPS:
        found.append(f"{window.active * window.repeat} steps make a large file; five tell nearly as much.")
    if window.time_limit_s > LONG_RECORDING_S:
        found.append("More than two minutes of recording is slow to open: a few steps tell nearly as much.")
    return found
