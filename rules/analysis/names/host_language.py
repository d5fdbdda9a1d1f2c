"""What the recorded program is written in or with: an idle CPU thread of a Python program means Python code."""

from __future__ import annotations

import re
from enum import StrEnum

from parsers.model import EventKind, Trace, derived
from parsers.model.events import of_kinds
from parsers.model.late import regex
from parsers.model.names.mangled import spelled_out
from rules.analysis.names.software import software_of

_PYTHON = regex(r"python|jupyter|ipython|torchrun|pt_main_thread", re.IGNORECASE)
_KERNEL_OF_PYTHON = regex(r"at::native|triton_|c10::|\b(?:cudapy|mshadow|mxnet)::")
_PYTORCH = regex(r"at::native|c10::|aten::|torch")
_JAX = regex(r"PjitFunction\(|jax\.Array|hlo_module=jit|jax/_src/")

_OF_ARRAYS = frozenset(("CuPy", "MXNet", "Numba", "RAPIDS", "TensorFlow"))


class Audience(StrEnum):
    """Who wrote the recorded program: what advice must be given in terms of."""

    PYTORCH = "PyTorch"
    JAX = "JAX"
    ARRAYS = "arrays"  # CuPy, MXNet, Numba, RAPIDS, TensorFlow: Python that is told nothing of PyTorch
    OTHER_PYTHON = "Python"
    NATIVE = "native"

    @property
    def is_python(self) -> bool:
        return self is not Audience.NATIVE


@derived
def program_of(trace: Trace) -> Audience:
    """By the names that PyTorch and JAX give to what they run; PyTorch's own go first."""
    if not _is_python(trace):
        return Audience.NATIVE
    if any(_PYTORCH.search(spelled_out(name)) for name in trace.strings):
        return Audience.PYTORCH
    if any(map(_JAX.search, trace.strings)):
        return Audience.JAX
    return Audience.ARRAYS if _OF_ARRAYS & set(software_of(trace)) else Audience.OTHER_PYTHON


def is_python(trace: Trace) -> bool:
    """Whether idle threads run Python code."""
    return program_of(trace).is_python


def _is_python(trace: Trace) -> bool:
    """By its frames and operators, its processes' names, or kernels of what Python programs use."""
    if of_kinds(trace.events.kind, EventKind.PYTHON, EventKind.CPU_OP, EventKind.STEP).any():
        return True
    if any(_PYTHON.search(lane.process_name) for lane in trace.lanes):
        return True
    return any(_KERNEL_OF_PYTHON.search(spelled_out(name)) for name in trace.strings)


def host_code(trace: Trace) -> str:
    """ "Python" or "the CPU": what the GPU waits for when no region says more."""
    return "Python" if is_python(trace) else "the CPU"
