"""Runs one recording from its first process to the files it leaves; it can be finished early or killed at any time."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from parsers.model.late import dataclass
from parsers.model.units import capital
from viewer.capture import commands, process_tree
from viewer.capture.elsewhere import Elsewhere, recordings_among
from viewer.capture.output_stream import Event, OutputStream
from viewer.capture.places import Place, ThisMachine
from viewer.capture.plan import Plan
from viewer.capture.request import (
    FOUND_NOTHING,
    CaptureProblem,
    CaptureRequest,
    TargetKind,
    Tool,
    explain,
    explain_ending,
    retry_after,
)
from viewer.capture.running import Running
from viewer.capture.storage import LAST_USED, FarRun, History, Presets, Run, data_folder
from viewer.remote.names import HERE, Unreachable

_LOG = logging.getLogger(__name__)
LOG_BYTES = 32 << 20
"""Saved output of a run; what a program prints beyond that is shown and not kept."""
TAIL_CHARACTERS = 200_000
LEFT_BEHIND_SECONDS = 5.0
"""How long processes that outlive the program may take to end by themselves (loggers that upload, workers)."""


def _nobody(_: object) -> None:
    """Stands for a listener that is gone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a recording ended.

    ``traceback`` is the script's own; ``problem`` is empty when there are recordings; ``retry`` is a request that
    should work where this one found nothing; ``left`` is what a lost connection left elsewhere, to be fetched.
    """

    recordings: tuple[Path, ...]
    exit_code: int
    elapsed_s: float
    log: Path
    problem: str = ""
    fix: str = ""
    traceback: str = ""
    killed: bool = False
    retry: CaptureRequest | None = None
    left: FarRun | None = None

    @property
    def failure(self) -> str:
        """The last line of the traceback; empty where the script did not fail."""
        return "".join(self.traceback.strip().splitlines()[-1:])


class Recording:
    """One recording. ``run`` blocks; the other methods may be called from any thread meanwhile."""

    def __init__(
        self,
        request: CaptureRequest,
        on_text: Callable[[str], None] = _nobody,
        on_event: Callable[[Event], None] = _nobody,
        history: History | None = None,
        again: FarRun | None = None,
    ) -> None:
        self.request = request
        self.mark = uuid.uuid4().hex
        self._on_text = on_text
        self._on_event = on_event
        self._history = history or History()
        self._elsewhere = (
            Elsewhere(request, self.mark, lambda event: self._on_event(event), again)
            if request.on not in ("", HERE)
            else None
        )
        self._place: Place = self._elsewhere or ThisMachine()
        self._plan: Plan | None = None
        self._running: Running | None = None
        self._watcher: process_tree.Watcher | None = None
        self._killed = threading.Event()
        self._finishing = threading.Event()
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._traceback = ""
        self._problem: Mapping[str, Any] = {}
        self._left: FarRun | None = None
        self._log: BinaryIO | None = None

    @property
    def pid(self) -> int:
        """The process started by this program, 0 before it starts."""
        return self._running.pid if self._running is not None else 0

    def run(self) -> Outcome:
        """Record; raises ``CaptureProblem`` when it cannot even start."""
        began = time.monotonic()
        plan = self._plan = self._place.prepare(self.request)
        try:
            if not self.request.trial and self.request.target.kind is not TargetKind.RUNNING:
                Presets().save(LAST_USED, self.request)
            run = self._history.begin(self.request)
            log = run.log.open("wb", buffering=0)  # nothing is left to be written when it closes
        except OSError as error:
            self._place.clean_up(plan)
            fix = "Free it or name another one in the environment variable STALLSCOPE_DATA."
            raise CaptureProblem(
                f"{error.filename or data_folder()} cannot be written: {error.strerror}.", fix
            ) from error
        recordings: list[Path] = []
        exit_code = -1
        problem, fix = "", ""
        try:
            with log as self._log, self._watched():
                exit_code = self._execute(plan.command, plan)
                if not self._killed.is_set():
                    recordings = self._finished_files(plan)
        except Unreachable:
            problem, fix = self._left_there()
        except CaptureProblem as caught:
            problem, fix = caught.problem, caught.fix
            if isinstance(caught.__cause__, Unreachable):
                problem, fix = self._left_there()
        except BaseException:
            self.kill()
            raise
        finally:
            self._place.clean_up(plan)
        if not recordings and not problem:
            problem, fix = self._why_nothing(exit_code)
        outcome = Outcome(
            tuple(recordings),
            exit_code,
            time.monotonic() - began,
            run.log,
            problem,
            fix,
            self._traceback,
            self._killed.is_set(),
            None if recordings else retry_after(self.request, self._problem),
            self._left,
        )
        self._remember(run, outcome)
        return outcome

    def finish_now(self) -> None:
        """End the recording at the next chance and keep what there is."""
        plan = self._plan
        if plan is None or self._running is None or self._finishing.is_set():
            return
        self._finishing.set()
        self._place.finish(plan, self.mark, self.pid)

    def kill(self) -> list[int]:
        """End every process of the recording now; those that could not be ended."""
        self._killed.set()
        return self._place.kill(self.mark, self.pid) if self._running is not None else []

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Should this process be killed meanwhile, a recording here ends with it; elsewhere the run goes on."""
        if self._elsewhere is not None:
            yield
            return
        try:
            self._watcher = process_tree.Watcher(self.mark)
        except OSError:
            _LOG.warning("no process can be started that would end the recording", exc_info=True)
        try:
            yield
        finally:
            if self._watcher is not None:
                self._watcher.dismiss()

    def _execute(self, words: Sequence[str], plan: Plan, settings: Mapping[str, str] | None = None) -> int:
        if self._killed.is_set():
            return -9
        running = self._running = self._place.start(words, plan, self.mark, settings or {})
        if self._watcher is not None:
            self._watcher.follow(running.pid)
        if self._killed.is_set():
            self.kill()
        reader = threading.Thread(target=self._read, args=(running,), name="capture output", daemon=True)
        reader.start()
        exit_code = running.wait()
        if self._watcher is not None:
            self._watcher.follow(0)
        self._end_what_is_left()
        reader.join(LEFT_BEHIND_SECONDS)
        return exit_code

    def _end_what_is_left(self) -> None:
        deadline = time.monotonic() + LEFT_BEHIND_SECONDS
        while not self._killed.is_set() and time.monotonic() < deadline:
            if not self._place.is_anything_left(self.mark):
                return
            time.sleep(0.1)
        self._place.kill(self.mark, 0)

    def _read(self, running: Running) -> None:
        stream = OutputStream()
        for data in running.pieces():
            self._take_all(stream.feed(data))
        self._take_all(stream.feed(b"", last=True))

    def _take_all(self, parts: Iterable[Event | str]) -> None:
        """A listener that fails is not called again: the program must never wait for a reader that is gone."""
        for part in parts:
            try:
                self._take(part)
            except Exception:
                _LOG.exception("nobody listens to the recording any more")
                self._on_text, self._on_event = _nobody, _nobody

    def _take(self, part: Event | str) -> None:
        if isinstance(part, Event):
            if part.phase == "failed":
                self._traceback = self._traceback or str(part.values.get("traceback", ""))
            elif part.phase == "problem":
                self._problem = self._problem or part.values
            self._on_event(part)
            return
        self._keep(part)
        self._tail.append(part)
        self._tail_length += len(part)
        while self._tail_length > TAIL_CHARACTERS and len(self._tail) > 1:
            self._tail_length -= len(self._tail.popleft())
        self._on_text(part)

    def _keep(self, text: str) -> None:
        log = self._log
        if log is None or log.closed or log.tell() >= LOG_BYTES:
            return
        with contextlib.suppress(OSError):
            log.write(text.encode("utf-8", "replace"))

    def _finished_files(self, plan: Plan) -> list[Path]:
        made = self._made(plan)
        if plan.request.tool is Tool.NSYS and made:
            made = self._converted(plan, made)
        if self._killed.is_set() or not made:
            return []
        if self._elsewhere is not None:
            self._on_event(Event("fetching"))
        return self._place.collect(plan, made)

    def _made(self, plan: Plan) -> list[str]:
        return recordings_among(self._place.files(plan), plan)

    def _converted(self, plan: Plan, names: list[str]) -> list[str]:
        reports = [name for name in names if name.endswith((".nsys-rep", ".qdrep"))]
        for raw in (name for name in names if name.endswith(".qdstrm")):
            if any(Path(report).stem == Path(raw).stem for report in reports):
                continue
            importer = self._place.importer(plan)
            if not importer:
                raise CaptureProblem(
                    f"Nsight Systems left only its raw stream ({raw}): this installation has no converter.",
                    "Open the stream with the full Nsight Systems on another machine, or install it here.",
                )
            self._on_event(Event("converting", values={"kernel": raw}))
            libraries = os.pathsep.join(
                filter(None, [str(Path(importer).parent), os.environ.get("LD_LIBRARY_PATH")])
            )
            self._execute([importer, "-i", f"{plan.out}/{raw}"], plan, {"LD_LIBRARY_PATH": libraries})
            reports += [name for name in self._made(plan) if name.endswith((".nsys-rep", ".qdrep"))]
        exported = []
        for report in sorted(set(reports)):
            self._on_event(Event("converting", values={"kernel": report}))
            output = f"{report.rpartition('.')[0]}.sqlite"
            words = commands.nsys_export(plan.tool_path, f"{plan.out}/{report}", f"{plan.out}/{output}")
            self._execute(words, plan)
            if output not in self._made(plan):
                problem, fix = explain(Tool.NSYS, "".join(self._tail))
                raise CaptureProblem(
                    problem or f"{report} could not be exported to SQLite.", fix or "Its output says why."
                )
            exported.append(output)
        return exported

    def _left_there(self) -> tuple[str, str]:
        assert self._elsewhere is not None
        if self._killed.is_set():
            return self._why_nothing(-9)
        self._left = self._elsewhere.keep_for_later()
        place = commands.shell_line([self.request.on])
        return (
            f"The connection to {self._elsewhere.name} was lost, but the run continues there.",
            f"`stallscope attach --on {place}` reconnects to it and fetches what it recorded.",
        )

    def _why_nothing(self, exit_code: int) -> tuple[str, str]:
        if self._killed.is_set():
            return "The recording was killed: nothing is kept.", ""
        output = "".join(self._tail)
        sentence, _, rest = str(self._problem.get("text", "")).partition(". ")
        said = f"{capital(sentence.rstrip('.'))}.", rest
        if self._problem.get("reason") in FOUND_NOTHING and not self._traceback:
            return said
        if self._traceback:
            last = self._traceback.strip().splitlines()[-1]
            _, fix = explain(self.request.tool, output)
            return (
                f"The script failed: {last.rstrip('.')}.",
                fix or "Make sure it runs on its own, then record again.",
            )
        problem, fix = explain(self.request.tool, output)
        if problem:
            return problem, fix
        if self._problem:
            return said
        if exit_code != 0:
            return explain_ending(exit_code)
        return (
            "The program ended and left no recording.",
            "Its output may say why; record the whole run instead of steps.",
        )

    def _remember(self, run: Run, outcome: Outcome) -> None:
        ended = replace(
            run,
            elapsed_s=outcome.elapsed_s,
            exit_code=outcome.exit_code,
            problem=outcome.problem,
            recordings=outcome.recordings,
        )
        with contextlib.suppress(OSError):  # a full disk costs the entry in the list, not the recording
            self._history.save(ended)
