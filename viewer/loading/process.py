"""Starts the loading process and listens to it; everything here runs in background threads of the window."""

from __future__ import annotations

import contextlib
import queue
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parsers.files.decoders import from_json
from parsers.files.private_folder import PrivateFolder
from parsers.model import Progress, Trace, TraceError
from parsers.preview import PREVIEW_EVENTS
from parsers.storage import columns as stored_columns
from parsers.storage.handover import Handover, take_over
from viewer.loading.apart import is_large, reader
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
    message_of,
)

if TYPE_CHECKING:
    from parsers.helper_process import HelperProcess
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis
    from rules.terms import Thresholds
    from viewer.timeline.geometry.drawing_index import DrawingIndex

_LOOK_EVERY_S = 0.03
# ended by the system, by a library, by OpenBLAS, and by Python where it cannot load a library
_WITHOUT_MEMORY = (-getattr(signal, "SIGKILL", 9), -signal.SIGABRT, -signal.SIGINT, 1)
_NOT_AS_WRITTEN = (OSError, ValueError, TypeError, KeyError, msgspec.MsgspecError)


class CannotLoadThere(Exception):
    """The process cannot be started, or cannot hand over what it read: read it in this process instead."""


class LoadingFailed(Exception):
    """A mistake of the program in the loading process; the text is its report."""


class LoadingProcess:
    """One request to a process of its own. ``close`` ends it, whatever it is doing.

    What is ``only_read`` is for a command: nothing is shown early, and nothing analysed.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        thresholds: Thresholds | None = None,
        handed: Handover | None = None,
        only_read: bool = False,
    ) -> None:
        self.paths = tuple(Path(path) for path in paths)
        self.thresholds = thresholds
        self.handed = handed  # where the columns are
        self.folder = PrivateFolder()
        self._asked = False
        self._index = ""  # the file of the drawing index
        wanted = Wanted(
            tuple(str(path) for path in self.paths),
            str(self.folder.path),
            PREVIEW_EVENTS if not only_read and is_large(self.paths) else 0,
            dict(thresholds.chosen) if thresholds is not None else {},
            handed,
            only_read,
        )
        try:
            self._helper = reader()
        except (OSError, RuntimeError) as error:
            raise CannotLoadThere(str(error)) from error
        self._helper.ask(line_of(wanted))

    @property
    def number(self) -> int:
        """The id of the process."""
        return self._helper.process.pid

    def trace(self, progress: Progress, preview: Callable[[Trace], None]) -> Trace:
        """Wait until everything is read; ``preview`` gets the first events before that, where there are any.

        Raises what reading in this process would raise, and ``CannotLoadThere``.
        """
        message = self._next(Read, progress, preview)
        assert isinstance(message, Read)
        self.handed, self._index = message.trace, message.index
        return self._mapped(message)

    def index(self, trace: Trace) -> DrawingIndex:
        from viewer.loading.drawing_file import read_index
        from viewer.timeline.geometry.drawing_index import build_index

        try:
            return read_index(Path(self._index), trace)
        except _NOT_AS_WRITTEN:
            return build_index(trace)

    def analysis(self, trace: Trace, progress: Progress) -> tuple[Analysis, Diagnosis]:
        """Wait for the analysis of the trace that ``trace`` gave; raises like it. To be asked once."""
        from rules.handover import FoundOut, known
        from rules.terms import DEFAULTS

        self._asked = True
        message = self._next(Analysed, progress, lambda _: None)
        assert isinstance(message, Analysed)
        try:
            _, columns = stored_columns.read(Path(message.columns))
            plain = from_json(message.plain, FoundOut)
            return known(trace, plain, columns, self.thresholds or DEFAULTS)
        except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
            raise CannotLoadThere(str(error)) from error

    def will_answer(self, thresholds: Thresholds) -> bool:
        """Whether nobody asked for the analysis yet, and it is made with these thresholds."""
        return not self._asked and self.thresholds == thresholds

    def again(self, thresholds: Thresholds) -> LoadingProcess:
        """Another process, which analyses the columns that this one read; keep this one, they may lie in its folder.

        Raises ``CannotLoadThere``.
        """
        self.close()
        if self.handed is None:
            raise CannotLoadThere("nothing was read")
        return LoadingProcess(self.paths, thresholds, handed=self.handed)

    def close(self) -> None:
        self._helper.end()

    def _mapped(self, message: Preview | Read) -> Trace:
        try:
            return take_over(message.trace, self.folder)
        except _NOT_AS_WRITTEN as error:
            raise CannotLoadThere(str(error)) from error

    def _next(
        self, kind: type[Read] | type[Analysed], progress: Progress, preview: Callable[[Trace], None]
    ) -> Message:
        """The next message of a kind; everything before it is dealt with here."""
        said = Step(0.0, "starting to read" if kind is Read else "starting to analyse")
        while True:
            progress.step(said.fraction, said.doing)
            try:
                line = self._helper.next(_LOOK_EVERY_S)
            except queue.Empty:
                continue
            if line is None:
                raise death_of(self._helper, self.paths[0])
            message = message_of(line)
            if isinstance(message, Step):
                said = message
            elif isinstance(message, Preview):
                with contextlib.suppress(CannotLoadThere):
                    preview(self._mapped(message))
            elif isinstance(message, kind):
                return message
            else:
                raise error_of(message)


def death_of(helper: HelperProcess, path: Path) -> TraceError:
    """What is said of a process that ended by itself while it read."""
    code = helper.process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    memory = ", most likely for lack of memory" if was_short_of_memory(code) else ""
    return TraceError(
        path,
        f"The process that read it was killed ({how}{memory}).",
        "Close other programs and try again, or open a shorter recording or fewer ranks.",
    )


def was_short_of_memory(code: int) -> bool:
    """Whether a process that ended with this exit code most likely lacked memory."""
    return code in _WITHOUT_MEMORY


def error_of(message: Message) -> Exception:
    """The error that a message stands for."""
    if isinstance(message, Refused):
        return message.error()
    if isinstance(message, NoRoom):
        return CannotLoadThere(message.reason)
    if isinstance(message, Failed):
        return LoadingFailed(message.report)
    return CannotLoadThere(f"an unexpected message: {type(message).__name__}")
