"""The loading process: reads, hands over, analyses, and says how far it is. It knows no Qt."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING

from viewer.loading.messages import (
    Analysed,
    Failed,
    Message,
    NoRoom,
    NotReadable,
    Preview,
    Read,
    Refused,
    Step,
    Wanted,
    line_of,
    wanted_of,
)

if TYPE_CHECKING:
    from parsers.model import Progress, Trace
    from parsers.stored.handover import Handover

_LOG = logging.getLogger(__name__)
_SAY_EVERY_S = 0.05
_FIRST_TO_END_WITHOUT_MEMORY = "800"  # of 1000: rather this process than the window


class Speaker:
    """Writes messages, and steps of progress not too often."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._last = 0.0

    def say(self, message: Message) -> None:
        """One line, at once."""
        self._pipe.write(line_of(message))
        self._pipe.flush()

    def step(self, fraction: float, doing: str) -> None:
        """A listener of ``Progress``."""
        now = time.monotonic()
        if now - self._last >= _SAY_EVERY_S:
            self._last = now
            self.say(Step(fraction, doing))


def main() -> int:
    """Serve one request, which is the first line of the standard input; its end means that nobody listens."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END_WITHOUT_MEMORY)
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may get between the messages
    speaker = Speaker(pipe)
    wanted = wanted_of(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_listener, daemon=True).start()
    tempfile.tempdir = wanted.folder  # what is unpacked stays for the window
    with contextlib.suppress(BrokenPipeError):
        _serve(wanted, speaker)
    pipe.close()
    os._exit(0)  # without clearing away what the window still needs


def _end_with_the_listener() -> None:
    while sys.stdin.buffer.read(1 << 12):
        pass
    os._exit(1)


def _serve(wanted: Wanted, speaker: Speaker) -> None:
    from parsers.model import TraceError

    try:
        _work(wanted, speaker)
    except TraceError as error:
        speaker.say(Refused.of(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        speaker.say(NotReadable(error.errno or 0, error.strerror or str(error), str(error.filename or "")))
    except MemoryError:
        speaker.say(NotReadable(None, "", ""))
    except Exception as error:
        speaker.say(Failed(type(error).__name__, traceback.format_exc()))


def _work(wanted: Wanted, speaker: Speaker) -> None:
    from parsers import open_trace
    from parsers.model import Progress
    from parsers.stored.handover import CannotHandOver, hand_over, take_over

    if wanted.handed is not None:
        _analyse_again(wanted.handed, wanted, speaker)
        return
    paths, folder = [Path(path) for path in wanted.paths], Path(wanted.folder)
    if wanted.preview_events:
        _show_first(paths, folder, wanted.preview_events, speaker)
    progress = Progress(speaker.step)
    trace = open_trace(paths, progress)
    try:
        handed = hand_over(trace, folder)
    except CannotHandOver as error:
        speaker.say(NoRoom(str(error)))
        return
    del trace
    speaker.say(Read(handed))
    trace = take_over(handed)  # the analysis works on the mapped columns, so that they are in memory once
    _analyse(trace, wanted, progress, speaker)


def _analyse_again(handed: Handover, wanted: Wanted, speaker: Speaker) -> None:
    """Columns that were removed meanwhile are no mistake: the window still has them mapped."""
    import msgspec

    from parsers.model import Progress
    from parsers.stored.handover import take_over

    try:
        trace = take_over(handed)
    except (OSError, ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
        speaker.say(NoRoom(f"the columns are gone ({error})"))
        return
    _analyse(trace, wanted, Progress(speaker.step), speaker)


def _show_first(paths: list[Path], folder: Path, events: int, speaker: Speaker) -> None:
    """A preview that cannot be made is left out; the complete reading tells what is wrong."""
    from parsers.preview import open_preview
    from parsers.stored.handover import hand_over

    try:
        first = open_preview(paths, most_events=events)
        handed = None if first is None else hand_over(first, folder, keep=False)
    except Exception:
        _LOG.warning("there is no preview", exc_info=True)
        return
    if handed is not None:
        speaker.say(Preview(handed))


def _analyse(trace: Trace, wanted: Wanted, progress: Progress, speaker: Speaker) -> None:
    from parsers.stored import columns as stored_columns
    from rules.handover import found_out
    from rules.thresholds import Thresholds
    from viewer.loading.analysing import analysed

    plain, columns = found_out(*analysed(trace, progress, Thresholds(wanted.thresholds)))
    path = Path(wanted.folder) / "analysis.columns"
    try:
        stored_columns.write(path, columns)
    except OSError as error:
        speaker.say(NoRoom(f"the analysis could not be written ({error})"))
        return
    speaker.say(Analysed(plain, str(path)))
