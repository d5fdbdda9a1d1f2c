"""What libraries offer to the programs that call them, among Python frames."""

from __future__ import annotations

from parsers.model.derived import derived_by
from parsers.model.late import regex
from parsers.model.names.source_files import frame_parts
from rules.analysis.analysis import Analysis
from rules.analysis.idle.threads import UserFrames
from rules.analysis.stretches.program_frames import is_program_frame

_MACHINERY = regex(r"^torch[/\\](nn[/\\]modules|_dynamo|_inductor|_functorch|fx)[/\\]")
_SLEEPS = regex(r"<built-in (function|method) sleep( of .*)?>$|asyncio[/\\]tasks\.py\(\d+\): sleep$")
_WRAPPERS = frozenset({"wrapper", "wrapped", "inner", "decorate_context"})


def is_sleep(name: str) -> bool:
    """Whether a frame only lets time pass."""
    return _SLEEPS.match(name) is not None


def is_library_call(name: str) -> bool:
    """Whether a frame is a library's function for its callers, and does not only call the program's own for them."""
    function, _, line = frame_parts(name)
    return is_sleep(name) or (
        line > 0
        and not function.startswith(("_", "<"))
        and function not in _WRAPPERS
        and not _MACHINERY.match(name)
        and not is_program_frame(name)
    )


@derived_by
def library_calls(analysis: Analysis, thread: int) -> UserFrames:
    """Such frames of one thread."""
    return UserFrames.of(analysis.threads, thread, is_library_call)
