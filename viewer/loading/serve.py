"""The loading process: reads, hands over, analyses, and says how far it is. It knows no Qt."""

from __future__ import annotations

import logging
import tempfile
import time
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING

from viewer.loading.messages import (
    Analysed,
    Failed,
    Message,
    NoRoom,
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


class Speaker:
    """Writes messages, and steps of progress not too often."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._last = 0.0

    def say(self, message: Message) -> None:
        """One line, at once."""
        self._pipe.write(line_of(message) + b"\n")
        self._pipe.flush()

    def step(self, fraction: float, doing: str) -> None:
        """A listener of ``Progress``."""
        now = time.monotonic()
        if now - self._last >= _SAY_EVERY_S:
            self._last = now
            self.say(Step(fraction, doing))


def serve(request: bytes, pipe: IO[bytes]) -> None:
    """Serve one request of the window."""
    from parsers.model import SYSTEM_ERRORS, TraceError, refused_by_system

    wanted, speaker = wanted_of(request), Speaker(pipe)
    tempfile.tempdir = wanted.folder  # what is unpacked stays for the window
    try:
        _work(wanted, speaker)
    except TraceError as error:
        speaker.say(Refused.of(error))
    except BrokenPipeError:
        raise
    except SYSTEM_ERRORS as error:
        speaker.say(Refused.of(refused_by_system(error, wanted.paths[0])))
    except Exception as error:
        speaker.say(Failed(type(error).__name__, traceback.format_exc()))


def _work(wanted: Wanted, speaker: Speaker) -> None:
    from parsers import open_trace
    from parsers.model import Progress
    from parsers.stored.handover import CannotHandOver, take_over

    if wanted.handed is not None:
        _analyse_again(wanted.handed, wanted, speaker)
        return
    paths, folder = [Path(path) for path in wanted.paths], Path(wanted.folder)
    if wanted.preview_events:
        _show_first(paths, folder, wanted.preview_events, speaker)
    progress = Progress(speaker.step)
    trace = open_trace(paths, progress.part(0.0, 0.95), keep=False)
    try:
        read = _handed_over(trace, folder, None if wanted.only_read else progress.part(0.95, 1.0))
    except CannotHandOver as error:
        speaker.say(NoRoom(str(error)))
        return
    del trace
    speaker.say(read)
    if wanted.only_read:
        return
    trace = take_over(read.trace)  # the analysis works on the mapped columns, so that they are in memory once
    _analyse(trace, wanted, progress, speaker)


def _handed_over(trace: Trace, folder: Path, drawing: Progress | None) -> Read:
    """Write the columns; what ``drawing`` them takes is made meanwhile. Raises ``CannotHandOver``."""
    from parsers.model.threads import Threads
    from parsers.stored.handover import hand_over

    if drawing is None:
        return Read(hand_over(trace, folder))
    from viewer.loading.drawing_file import write_index
    from viewer.timeline.geometry.drawing_index import build_index

    index = folder / "drawing.columns"
    with Threads(1) as aside:
        handing = aside.submit(hand_over, trace, folder)
        try:
            write_index(index, build_index(trace, drawing))
        except OSError:
            _LOG.warning("the window makes the drawing index", exc_info=True)
    return Read(handing.result(), str(index))


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
    import msgspec

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
    speaker.say(Analysed(msgspec.Raw(msgspec.json.encode(plain)), str(path)))
