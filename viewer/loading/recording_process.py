"""A recording that another process holds, and that is asked there: whatever an answer costs, it can be ended."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.files.private_folder import PrivateFolder
from parsers.helper_process import HelperProcess
from parsers.model import Progress, TraceError, derived
from parsers.model.late import dataclass
from parsers.model.units import size
from parsers.storage.handover import CannotHandOver, Handover, hand_over
from viewer.loading.apart import reader
from viewer.loading.messages import (
    Answered,
    Asking,
    Call,
    Held,
    Hold,
    Message,
    Mistaken,
    More,
    Part,
    Step,
    Stop,
    Stopped,
    line_of,
    message_of,
)
from viewer.loading.process import death_of, error_of, was_short_of_memory
from viewer.query.errors import MemoryReached, QueryError, TimeReached
from viewer.query.limits import Limits, resident_bytes

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis

_LOOK_EVERY_S = 0.02
_STOPS_WITHIN_S = 0.1  # else it is ended
_FINAL = (Answered, Stopped, Mistaken)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one call may cost beside its questions: seconds to read, seconds to answer, bytes of the whole process."""

    opening_s: float | None = None
    answering_s: float | None = None
    memory: int | None = None


@dataclass(slots=True)
class _Watch:
    """When a process has to be ended, and what is said then."""

    helper: HelperProcess
    until: float | None
    late: Exception
    most: int | None
    too_large: Exception

    def look(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            raise self.late
        if self.most is not None and resident_bytes(self.helper.process.pid) > self.most:
            raise self.too_large


class AskedRecording:
    """Its process is started when it is first asked, and again when it is asked after one was ended.

    ``handed`` writes the trace below a folder instead of having ``runs`` read. One call is answered at a time.
    """

    def __init__(
        self,
        runs: Sequence[Sequence[Path | str]],
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
        bounds: Bounds = Bounds(),  # noqa: B008 - and so is this
        handed: Callable[[Path], Handover] | None = None,
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        self._runs = tuple(tuple(str(path) for path in run) for run in runs)
        self._limits, self._bounds = limits, bounds
        self._hand = handed
        self._handed: Handover | None = None
        self._thresholds = dict(thresholds or {})
        self._folder: PrivateFolder | None = None
        self._helper: HelperProcess | None = None
        self._turn = threading.Lock()

    @property
    def resident(self) -> int:
        """Memory (bytes) that its process holds now."""
        helper = self._helper
        return 0 if helper is None else resident_bytes(helper.process.pid)

    def answer(self, function: Callable[..., Any], progress: Progress, **arguments: Any) -> bytes:
        """What ``function`` gives, in one piece; raises like ``pieces``."""
        return b"".join(self.pieces(function, progress, **arguments))

    def pieces(self, function: Callable[..., Any], progress: Progress, **arguments: Any) -> Iterator[bytes]:
        """What ``function(analysis, ..., progress=..., **arguments)`` gives there, as it comes.

        Raises what reading raises, ``QueryError`` and ``Cancelled``; the process is ended where it does not stop.
        """
        with self._my_turn(progress):
            helper = self._opened(progress)
            call = Call(function.__module__, function.__name__, arguments)
            helper.ask(line_of(call))
            try:
                said = yield from self._parts(helper, progress)
                if isinstance(said, Mistaken) and said.is_short_of_memory:
                    raise MemoryReached(self._limits.memory)
            except (KeyboardInterrupt, MemoryReached):
                self.end()
                raise
            except BaseException:
                self._stop(helper)
                raise
            if not isinstance(said, Answered):
                raise said.error() if isinstance(said, Mistaken) else error_of(said)

    @contextmanager
    def _my_turn(self, progress: Progress) -> Iterator[None]:
        while not self._turn.acquire(timeout=_LOOK_EVERY_S):
            progress.step(0.0, "waiting for another answer")
        try:
            yield
        finally:
            self._turn.release()

    def _opened(self, progress: Progress) -> HelperProcess:
        """The process, once it holds the recording."""
        if self._helper is not None and self._helper.process.poll() is None:
            return self._helper
        self._folder = self._folder or PrivateFolder()
        path = Path(next((path for run in self._runs for path in run), "recording"))
        try:
            if self._hand is not None and self._handed is None:
                self._handed = self._hand(self._folder.path)
            self._helper = helper = reader()
        except (CannotHandOver, OSError, RuntimeError) as error:
            problem = f"The process that answers questions cannot be started: {error}."
            raise TraceError(path, problem, "Free some memory and some space on the disk.") from error
        wanted = Hold(self._runs, str(self._folder.path), self._limits.memory, self._thresholds, self._handed)
        helper.ask(line_of(wanted))
        seconds, memory = self._bounds.opening_s, self._bounds.memory
        watch = _Watch(
            helper,
            None if seconds is None else time.monotonic() + seconds,
            TraceError(path, f"Reading it takes longer than {seconds or 0:g} s.", "Ask about a shorter one."),
            memory,
            TraceError(
                path, f"It needs more than {size(memory or 0)} of memory.", "Ask about a shorter one."
            ),
        )
        try:
            for message in self._messages(helper, progress, watch):
                if isinstance(message, Held):
                    return helper
                raise error_of(message)
        except BaseException:
            self.end()
            raise
        ended = death_of(helper, path)
        self.end()
        raise ended

    def _parts(self, helper: HelperProcess, progress: Progress) -> Generator[bytes, None, Message]:
        """The parts of an answer, and how it ended."""
        whole, limits = self._bounds.answering_s, self._limits
        late = TimeReached(whole or 0)
        until = None if whole is None else time.monotonic() + whole
        watch = _Watch(helper, until, late, self._bounds.memory, MemoryReached(self._bounds.memory or 0))
        is_question = False
        for message in self._messages(helper, progress, watch):
            if isinstance(message, Asking):
                is_question = True
                watch.until, watch.late = time.monotonic() + limits.seconds, TimeReached(limits.seconds)
                watch.most = resident_bytes(helper.process.pid) + limits.memory
                watch.too_large = MemoryReached(limits.memory)
            elif isinstance(message, Part):
                yield message.content
                helper.ask(line_of(More()))
            else:
                return message
        code = helper.process.wait()
        if is_question and was_short_of_memory(code):
            raise MemoryReached(limits.memory)
        raise QueryError(f"The process that answered this ended ({code}).", "Ask it in another way.")

    def _messages(self, helper: HelperProcess, progress: Progress, watch: _Watch) -> Iterator[Message]:
        """All but steps, which ``progress`` hears; no more once the process has ended."""
        said = Step(0.0, "asking")
        while True:
            progress.step(said.fraction, said.doing)
            watch.look()
            try:
                line = helper.next(_LOOK_EVERY_S)
            except queue.Empty:
                continue
            if line is None:
                return
            message = message_of(line)
            if isinstance(message, Step):
                said = message
            else:
                yield message

    def _stop(self, helper: HelperProcess) -> None:
        """Have it stop, so that the recording need not be read again; end it where it does not at once."""
        helper.ask(line_of(Stop()))
        until = time.monotonic() + _STOPS_WITHIN_S
        while (left := until - time.monotonic()) > 0:
            try:
                line = helper.next(left)
            except queue.Empty:
                break
            if line is None:
                break
            if isinstance(message_of(line), _FINAL):
                return
        self.end()

    def end(self) -> None:
        """End the process, whatever it is doing; the next question starts another."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()

    def close(self) -> None:
        """The same, and remove what was unpacked for it."""
        self.end()
        self._folder = self._handed = None


@derived
def asked(analysis: Analysis) -> AskedRecording:
    """The process that answers questions about a recording that this one has open; it ends with the analysis."""
    of = weakref.ref(analysis)

    def hand(folder: Path) -> Handover:
        held = of()
        assert held is not None, "nobody asks about an analysis that is gone"
        return hand_over(held.trace, folder)

    paths = [each.file for each in analysis.trace.inputs]
    return AskedRecording([paths], handed=hand, thresholds=dict(analysis.thresholds.chosen))
