"""Whether the recorded program is Python: then an idle CPU thread means Python code."""

from __future__ import annotations

import re

from parsers.model import EventKind, Trace

_PYTHON = re.compile(r"python|jupyter|ipython|torchrun|pt_main_thread", re.IGNORECASE)
_PYTORCH_KERNEL = re.compile(r"at::native|triton_|c10::")


def is_python(trace: Trace) -> bool:
    """By its frames and operators, its processes' names, or PyTorch's kernels."""
    if any(
        (trace.events.kind == kind).any() for kind in (EventKind.PYTHON, EventKind.CPU_OP, EventKind.STEP)
    ):
        return True
    if any(_PYTHON.search(lane.process_name) for lane in trace.lanes):
        return True
    return any(_PYTORCH_KERNEL.search(text) for text in trace.strings)


def host_code(trace: Trace) -> str:
    """ "Python" or "the CPU": what the GPU waits for when no region says more."""
    return "Python" if is_python(trace) else "the CPU"
