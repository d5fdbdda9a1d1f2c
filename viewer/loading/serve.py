"""The loading process: reads, hands over, analyses, and says how far it is. It knows no Qt."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from parsers.collecting import collect_seldom
from parsers.helper_process import is_asked
from viewer.loading.messages import Analysed, Hold, NoRoom, Preview, Read, Speaker, Wanted, outcome, wanted_of

if TYPE_CHECKING:
    from parsers.model import Progress, Trace
    from parsers.storage.handover import Handover

_LOG = logging.getLogger(__name__)


def prepare() -> None:
    """Load what reads; all parsers, too, unless it is known by now what is to be read, which mostly needs but one."""
    collect_seldom()
    from parsers import opening  # noqa: F401
    from parsers.files.base import parsers

    if not is_asked():
        parsers()


def serve(request: bytes, pipe: IO[bytes]) -> None:
    """Serve one request of the window; or hold a recording, and answer whatever is asked about it."""
    wanted, speaker = wanted_of(request), Speaker(pipe)
    tempfile.tempdir = wanted.folder  # what is unpacked stays for the window
    if isinstance(wanted, Hold):
        from viewer.loading.recording_server import hold

        hold(wanted, speaker)
    elif (error := outcome(lambda: _work(wanted, speaker), wanted.paths[0])) is not None:
        speaker.say(error)


def _work(wanted: Wanted, speaker: Speaker) -> None:
    from parsers import open_trace
    from parsers.model import Progress
    from parsers.storage.handover import CannotHandOver, take_over

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
    from parsers.model.threads import threads
    from parsers.storage.handover import hand_over

    if drawing is None:
        return Read(hand_over(trace, folder))
    from viewer.loading.drawing_file import write_index
    from viewer.timeline.geometry.drawing_index import build_index

    index = folder / "drawing.columns"
    with threads(1) as aside:
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
    from parsers.storage.handover import take_over

    try:
        trace = take_over(handed)
    except (OSError, ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
        speaker.say(NoRoom(f"the columns are gone ({error})"))
        return
    _analyse(trace, wanted, Progress(speaker.step), speaker)


def _show_first(paths: list[Path], folder: Path, events: int, speaker: Speaker) -> None:
    """A preview that cannot be made is left out; the complete reading tells what is wrong."""
    from parsers.preview import open_preview
    from parsers.storage.handover import hand_over

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

    from parsers.storage import columns as stored_columns
    from rules.handover import found_out
    from rules.terms import Thresholds
    from viewer.loading.analysing import analysed

    plain, columns = found_out(*analysed(trace, progress, Thresholds(wanted.thresholds)))
    path = Path(wanted.folder) / "analysis.columns"
    try:
        stored_columns.write(path, columns)
    except OSError as error:
        speaker.say(NoRoom(f"the analysis could not be written ({error})"))
        return
    speaker.say(Analysed(msgspec.json.encode(plain), str(path)))
