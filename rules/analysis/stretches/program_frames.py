"""Which Python frames are of the program itself: not of Python, PyTorch, or a library that is installed."""

from __future__ import annotations

import numpy as np

import resources
from parsers.model import EventKind
from parsers.model.derived import derived_by
from parsers.model.late.regex import regex
from parsers.model.names.source_files import frame_parts, is_own_frame
from rules.analysis.analysis import Analysis
from rules.analysis.idle.frames import UserFrames, is_users_frame

FRAMES = (EventKind.PYTHON, EventKind.SAMPLED_FRAME)
# Profilers cut paths at the folder of installed packages, so that these look like folders of the program
_LIBRARIES = frozenset(resources.path("libraries.txt").read_text("utf-8").split())
_FIRST_FOLDER = regex(r"([^/\\.]+)(?:[/\\]|\.py\()")


def is_program_frame(name: str) -> bool:
    """Whether a frame is of the program itself: not of Python, PyTorch, or a library that is installed."""
    found = _FIRST_FOLDER.match(name)
    if (found is not None and found[1] in _LIBRARIES) or "torchinductor_" in name:
        return False
    return is_users_frame(name) and is_own_frame(name) and frame_parts(name)[2] > 0


@derived_by
def program_script(analysis: Analysis) -> str:
    """The file of the longest outermost frame, where files are recorded without their folders; "" where they are not.

    Nothing else then tells the program's files from those of libraries.
    """
    trace, table = analysis.trace, analysis.trace.events
    frames = table.of_kind(*FRAMES)
    files = {frame_parts(trace.strings[name])[1] for name in np.unique(table.name[frames]).tolist()}
    if not files or any("/" in file or "\\" in file for file in files):
        return ""
    outermost = frames[table.depth[frames] == table.depth[frames].min()]
    longest = outermost[np.argmax(table.end[outermost] - table.start[outermost])]
    return frame_parts(trace.name(int(longest)))[1]


@derived_by
def program_frames(analysis: Analysis, thread: int) -> UserFrames:
    """The program's own frames of one thread."""
    script = program_script(analysis)

    def is_own(name: str) -> bool:
        function, file, _ = frame_parts(name)
        return is_program_frame(name) and function != "<module>" and (not script or file == script)

    return UserFrames.of(analysis.threads, thread, is_own, FRAMES)
