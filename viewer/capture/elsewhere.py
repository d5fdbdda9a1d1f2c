"""Records at another place: the runner is put there, the run belongs to no connection, its files come back verified."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parsers.files.private_folder import PrivateFolder
from parsers.model import Progress
from viewer.capture import process_tree
from viewer.capture.commands import FILE_NAME, needs_runner, save_runner
from viewer.capture.output_stream import Event
from viewer.capture.plan import SUFFIXES, Plan, command_for, made_folder
from viewer.capture.request import CaptureProblem, CaptureRequest
from viewer.capture.running import FollowedProgram, Running
from viewer.capture.storage import FarRun, far_runs, is_alive, own_id
from viewer.capture.target_words import how_often, starts_python_itself
from viewer.remote.far import Far, free_path, is_plain_name
from viewer.remote.names import PlaceProblem, Unreachable, find_place
from viewer.remote.transfer import fetch

JOB = "1"


class Elsewhere:
    """One recording at a place that is not this machine; ``again`` takes up a run that was left there."""

    def __init__(
        self, request: CaptureRequest, mark: str, tell: Callable[[Event], None], again: FarRun | None = None
    ) -> None:
        with _as_capture_problem():
            self._far = Far(find_place(request.on, request.setup))
        self._mark = mark if again is None else again.mark
        self._tell = tell
        self._again = again
        self._run: FarRun | None = again
        self._program: FollowedProgram | None = None
        self._jobs = 0
        self._is_unwanted = False

    @property
    def name(self) -> str:
        """As messages call the place."""
        return self._far.name

    def prepare(self, request: CaptureRequest) -> Plan:
        with _as_capture_problem():
            self._far.open()
            if self._again is not None:
                return self._plan_of(self._again)
            self._settle_what_was_left(request.on)
            return self._prepare(request)

    def _prepare(self, request: CaptureRequest) -> Plan:
        target = request.target
        interpreter = target.interpreter
        if needs_runner(request) and not starts_python_itself(target):
            interpreter = interpreter or self._python()
        request = replace(request, target=replace(target, interpreter=interpreter))
        command_for(request, "/", "check")  # refuses what cannot be recorded before anything is made there
        into = made_folder(request)
        folder = self._far.make_folder(f"{own_id()} {os.getpid()}")
        self._run = FarRun(self._mark, request, folder, str(into), os.getpid(), started=time.time())
        try:
            self._run.keep()
            self._far.put(_runner(), f"{folder}/{FILE_NAME}")
        except PlaceProblem as problem:
            self.clean_up(self._plan_of(self._run))
            raise PlaceProblem(
                self.name,
                f"Stallscope could not copy what records the program to that place: {problem.problem}",
            ) from None
        except BaseException:
            self.clean_up(self._plan_of(self._run))
            raise
        return self._plan_of(self._run)

    def _python(self) -> str:
        if self._far.place.setup:
            return "python3"  # of the environment that the line prepares
        for name in ("python3", "python"):
            if self._far.has(name):
                return name
        raise CaptureProblem(
            f"{self.name} has no python3.",
            "Name the interpreter there with --python, or the line that prepares its environment with --setup.",
        )

    def _plan_of(self, run: FarRun) -> Plan:
        request, out, control = run.request, f"{run.folder}/out", f"{run.folder}/finish"
        name = request.target.name
        runner = f"{run.folder}/{FILE_NAME}"
        words = command_for(request, out, name, runner=runner, status="lines", control=control)
        return Plan(request, tuple(words), out, name, control, request.tool.value)

    def start(self, words: Sequence[str], plan: Plan, mark: str, settings: Mapping[str, str]) -> Running:
        assert self._run is not None
        self._jobs += 1
        job = str(self._jobs)
        environment = {
            "PYTHONUNBUFFERED": "1",
            **plan.request.target.environment,
            process_tree.MARK: self._mark,
            **settings,
        }
        if self._again is None or job != JOB:
            with _as_capture_problem():
                target = plan.request.target
                spread = how_often(target) if job == JOB else ""
                self._far.start(self._run.folder, job, words, target.folder, environment, spread)
        self._program = FollowedProgram(self._far, self._run.folder, job, self._tell)
        return self._program

    def importer(self, plan: Plan) -> str:
        return ""

    def finish(self, plan: Plan, mark: str, root: int) -> None:
        """A run that is out of reach is left to itself: whoever asks twice does not want to wait."""
        assert self._run is not None
        try:
            if needs_runner(plan.request):
                self._far.ask("finish", self._run.folder, seconds=15.0)
            else:
                self._far.ask("interrupt", self._mark, self._run.folder, seconds=15.0)
        except Unreachable:
            if self._program is not None:
                self._program.leave()
        except PlaceProblem:
            pass

    def kill(self, mark: str, root: int) -> list[int]:
        self._is_unwanted = True
        if self._run is not None:
            with contextlib.suppress(PlaceProblem):
                self._far.ask("kill", self._run.folder, self._mark, seconds=15.0)
        if self._program is not None:
            self._program.leave()
        return []

    def is_anything_left(self, mark: str) -> bool:
        try:
            self._far.ask("alive", self._mark)
        except PlaceProblem:
            return False
        return True

    def files(self, plan: Plan) -> list[str]:
        with _as_capture_problem():
            return self._far.names(plan.out)

    def collect(self, plan: Plan, names: Sequence[str]) -> list[Path]:
        assert self._run is not None
        into = Path(self._run.into)
        into.mkdir(parents=True, exist_ok=True)
        plain = list(filter(is_plain_name, names))
        fetched = []
        for number, name in enumerate(plain):
            progress = Progress(self._tell_fetching(number, len(plain)))
            with _as_capture_problem():
                fetched.append(fetch(self._far, f"{plan.out}/{name}", free_path(into / name), progress))
        return fetched

    def _tell_fetching(self, number: int, count: int) -> Callable[[float, str], None]:
        said = [0.0]

        def tell(fraction: float, text: str) -> None:
            if time.monotonic() - said[0] > 0.25:
                said[0] = time.monotonic()
                whole = (number + fraction) / count
                self._tell(Event("fetching", values={"percent": int(100 * whole), "text": text}))

        return tell

    def clean_up(self, plan: Plan) -> None:
        """Remove the folder there; where it is out of reach, or its files are not here yet, the next time does it."""
        run, self._run = self._run, None
        if run is None:
            return
        is_lost = self._program is not None and not self._program.is_connected
        try:
            if is_lost and not self._is_unwanted:
                raise Unreachable(self.name, "It was left.")
            if self._is_unwanted:
                self._far.ask("kill", run.folder, self._mark, seconds=15.0)
            self._far.remove(run.folder)
        except PlaceProblem:
            run.let_go(unwanted=self._is_unwanted)
        else:
            run.forget()
        finally:
            self._far.close()

    def keep_for_later(self) -> FarRun | None:
        """Its files could not all be fetched: they stay there until somebody asks for them, by what is returned."""
        run, self._run = self._run, None
        if run is None:
            return None
        self._far.close()
        return run.let_go(unwanted=False)

    def _settle_what_was_left(self, place: str) -> None:
        """Bring home what earlier runs left there and remove it; what still runs and is wanted goes on."""
        for run in far_runs(place):
            if not run.is_abandoned:
                continue
            with contextlib.suppress(PlaceProblem, CaptureProblem, OSError):
                self._settle(run)
        with contextlib.suppress(PlaceProblem):
            known = {run.folder for run in far_runs(place)}
            for owner, folder in self._far.folders_of(own_id()):
                if folder not in known and not is_alive(owner, time.time()):
                    self._far.remove(folder)

    def _settle(self, run: FarRun) -> None:
        plan = self._plan_of(run)
        try:
            state = self._far.state(run.folder, JOB)
        except Unreachable:
            raise
        except PlaceProblem:
            state = None  # it never began
        if run.unwanted:
            self._far.ask("kill", run.folder, run.mark)
        elif state is not None and state.running:
            self._tell(Event("left", values={"text": f"an earlier run is still going on {self.name}"}))
            return
        elif state is not None:
            for name in recordings_among(self._far.names(plan.out), plan):
                Path(run.into).mkdir(parents=True, exist_ok=True)
                here = fetch(self._far, f"{plan.out}/{name}", free_path(Path(run.into) / name))
                self._tell(Event("left", values={"text": f"an earlier recording was fetched: {here}"}))
        self._far.remove(run.folder)
        run.forget()


def check_place(request: CaptureRequest) -> None:
    """Reach the place of a request before anything is said of what happens there; raises ``CaptureProblem``."""
    with _as_capture_problem():
        place = find_place(request.on, request.setup)
        if place.steps:
            far = Far(place)
            try:
                far.open()
            finally:
                far.close()


def recordings_among(names: Sequence[str], plan: Plan) -> list[str]:
    """Those that the tool of a plan wrote."""
    return [
        name
        for name in names
        if name.startswith(f"{plan.name}.") and name.endswith(SUFFIXES[plan.request.tool])
    ]


def _runner() -> bytes:
    folder = PrivateFolder()
    return save_runner(folder.path / FILE_NAME).read_bytes()


@contextlib.contextmanager
def _as_capture_problem() -> Iterator[None]:
    try:
        yield
    except PlaceProblem as problem:
        raise CaptureProblem(f"{problem.where}: {problem.problem}", problem.hint) from problem
