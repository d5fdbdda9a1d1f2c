"""Which Python frames are of the program itself, not of a library, and what libraries offer to it."""

from __future__ import annotations

import numpy as np

import resources
from parsers.model import EventKind, Trace, derived, derived_by
from parsers.model.arrays import distinct_values
from parsers.model.late import regex
from parsers.model.names.source_files import frame_parts, is_own_frame
from rules.analysis.analysis import Analysis
from rules.analysis.idle.threads import UserFrames, is_users_frame

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


FRAMES = (EventKind.PYTHON, EventKind.SAMPLED_FRAME)
# Profilers cut paths at the folder of installed packages, so that these look like folders of the program
_LIBRARIES = frozenset(resources.path("libraries.txt").read_text("utf-8").split())
_FIRST_FOLDER = regex(r"([^/\\.]+)(?:[/\\]|\.py$)")
# Outermost frames of JAX, where a recording that began inside a loop holds no frame of the script around them
_OF_JAX = frozenset(("api.py", "array.py", "core.py", "pjit.py", "profiler.py"))


def is_program_frame(name: str) -> bool:
    """Whether a frame is of the program itself: not of Python, PyTorch, or a library that is installed."""
    _, file, line = frame_parts(name)
    found = _FIRST_FOLDER.match(file)
    if (found is not None and found[1] in _LIBRARIES) or "torchinductor_" in name:
        return False
    return is_users_frame(name) and is_own_frame(name) and line > 0


@derived
def program_script(trace: Trace) -> str | None:
    """The file of the script, where files are recorded without their folders; None where they have them.

    Nothing else then tells the program's files from those of libraries. It is that of the longest frame at the top
    level of a file, or, where none was recorded, of the longest outermost one that is neither of Python nor of JAX;
    "" where there is none.
    """
    table = trace.events
    frames = table.of_kind(*FRAMES)
    if not len(frames):
        return ""
    parts = {name: frame_parts(trace.strings[name]) for name in distinct_values(table.name[frames]).tolist()}
    if any("/" in file or "\\" in file for _, file, _ in parts.values()):
        return None
    own = [
        name
        for name, (_, file, _) in parts.items()
        if is_own_frame(trace.strings[name]) and file not in _OF_JAX
    ]
    top_level = [name for name in own if parts[name][0] == "<module>"]
    first = frames[np.isin(table.name[frames], top_level or own)]
    if not len(first):
        return ""
    first = first[table.depth[first] == table.depth[first].min()]
    return parts[int(table.name[first[np.argmax(table.end[first] - table.start[first])]])][1]


@derived_by
def program_frames(analysis: Analysis, thread: int) -> UserFrames:
    """The program's own frames of one thread."""
    script = program_script(analysis.trace)

    def is_own(name: str) -> bool:
        function, file, _ = frame_parts(name)
        return is_program_frame(name) and function != "<module>" and (script is None or file == script)

    return UserFrames.of(analysis.threads, thread, is_own, FRAMES)
