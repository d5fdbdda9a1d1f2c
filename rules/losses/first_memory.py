"""Memory that PyTorch asks for once and keeps: no fault of a step, where a recording shows hardly more than one."""

from __future__ import annotations

from parsers.model.late import regex
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.inside_window import api_calls
from rules.analysis.names.host_language import Audience, program_of

MIN_STEPS_THAT_REPEAT = 2  # steps
HARDLY_ANY = 0.1  # of the calls that ask for memory: so few give back what a library took for itself
_GIVES_BACK = regex(r"Free|Unmap|Release|TrimTo|Unregister")


def asked_and_freed(analysis: Analysis, device: int) -> tuple[int, int]:
    """How many calls inside the window ask for memory, and how many give some back."""
    calls = api_calls(analysis, device, Call.ALLOCATE)
    frees = int(named(analysis.trace, calls, lambda name: _GIVES_BACK.search(name) is not None).sum())
    return len(calls) - frees, frees


def is_kept_from_now_on(analysis: Analysis, device: int) -> bool:
    """Whether PyTorch's cache only grows, in a recording in which nothing shows that it asks once more."""
    if (
        program_of(analysis.trace) is not Audience.PYTORCH
        or analysis.steps_in_window >= MIN_STEPS_THAT_REPEAT
    ):
        return False
    asks, frees = asked_and_freed(analysis, device)
    return frees <= HARDLY_ANY * asks
