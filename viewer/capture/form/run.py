"""The part of the capture dialog that shows a recording while it runs: phase, elapsed, output, finish now, kill."""

from __future__ import annotations

import subprocess
import time

from PySide6.QtCore import QCoreApplication, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QFontDatabase, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QProgressBar, QWidget

from parsers import program_search
from parsers.model import Progress
from parsers.model.late import dataclass
from parsers.model.units import capital
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, Label, fill, push_button, vertical
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import CaptureProblem, CaptureRequest, Tool
from viewer.capture.storage import FarRun
from viewer.desktop.jobs import Jobs

QUERY_SECONDS = 5.0
_FIELDS = "index,utilization.gpu,memory.used,memory.total"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU at one moment; memory in MiB, utilisation in percent, -1 where the driver does not say."""

    index: int
    utilisation: int
    memory_used: int
    memory_total: int

    @property
    def sentence(self) -> str:
        """``GPU 0: 87 % busy, 12.3 of 140 GiB``."""
        busy = f"{self.utilisation} % busy" if self.utilisation >= 0 else "use unknown"
        if self.memory_used < 0 or self.memory_total <= 0:
            return f"GPU {self.index}: {busy}"
        return (
            f"GPU {self.index}: {busy}, {self.memory_used / 1024:.3g} of {self.memory_total / 1024:.3g} GiB"
        )


def gpu_use() -> list[GpuUse]:
    """All GPUs now; empty without ``nvidia-smi`` or when it fails."""
    program = program_search.program("nvidia-smi")
    if program is None:
        return []
    try:
        words = [program, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
        said = program_search.answer_of(words, QUERY_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [use for line in said.stdout.splitlines() if (use := _read(line)) is not None]


def _read(line: str) -> GpuUse | None:
    words = [word.strip() for word in line.split(",")]
    if len(words) != 4 or not words[0].isdigit():
        return None
    numbers = [int(word) if word.lstrip("-").isdigit() else -1 for word in words]
    return GpuUse(*numbers)


SHOWN_LINES = 5000
GPU_EVERY_MS = 2000
FLUSH_MS = 60
MAX_SHOWN_LENGTH = 1 << 18


class RunView(QWidget):
    """Runs one recording at a time; ``ended`` carries its ``Outcome`` or the ``CaptureProblem`` that stopped it."""

    ended = Signal(object)
    retry_wanted = Signal(object)
    fetch_wanted = Signal(object)  # FarRun

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs
        self._recording: Recording | None = None
        self._began = 0.0
        self._pending: list[str] = []
        self._pending_length = 0
        self._line_restarts = False
        self.phase = Label(
            "", pixels=theme.VERDICT_PX, weight=QFont.Weight.DemiBold, wrap=True, selectable=True
        )
        self.advice = Label("", "secondary", wrap=True, selectable=True)
        self.elapsed = Label("", "secondary")
        self.gpu = Label("", "secondary")
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Recorded so far")
        self.progress.setFixedHeight(6)
        self.output = QPlainTextEdit()
        self.output.setReadOnly(True)
        self.output.setAccessibleName("Output of the program")
        self.output.setMaximumBlockCount(SHOWN_LINES)
        self.output.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.output.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.finish = push_button(
            "Finish recording now",
            tip="Ends the recording at the next opportunity and keeps the steps recorded so far",
        )
        self.kill = push_button(
            "Kill", tip="Ends the program and everything it started at once; nothing is kept"
        )
        self.retry = push_button()
        self.retry.hide()
        self._retry_request: CaptureRequest | None = None
        self.fetch = push_button(
            "Fetch", tip="Reconnects, waits for the end of the run there and brings its recording here"
        )
        self.fetch.hide()
        self._left: FarRun | None = None
        self._lay_out()
        self.fetch.clicked.connect(lambda: self.fetch_wanted.emit(self._left))
        self.retry.clicked.connect(lambda: self.retry_wanted.emit(self._retry_request))
        self.finish.clicked.connect(self.finish_now)
        self.kill.clicked.connect(self.kill_now)
        self._clock = self._timer(250, self._tick)
        self._flusher = self._timer(FLUSH_MS, self._flush)
        self._gpu_clock = self._timer(GPU_EVERY_MS, self._ask_gpu)
        if (program := QCoreApplication.instance()) is not None:
            program.aboutToQuit.connect(self.end_now)

    @property
    def running(self) -> bool:
        return self._recording is not None

    def offer(self, left: FarRun) -> None:
        """Show what an earlier connection left elsewhere, and let it be fetched."""
        self.phase.setText(f"{left.request.target.program} was left on {left.request.on}")
        self.advice.setText("The connection to it was lost.")
        self._left = left
        self.fetch.show()

    def start(self, request: CaptureRequest, again: FarRun | None = None) -> None:
        """Begin, or follow ``again`` what goes on elsewhere; a recording that already runs is left alone."""
        if self._recording is not None:
            return
        self.output.clear()
        self.advice.clear()
        self.gpu.clear()
        self.retry.hide()
        self.fetch.hide()
        self.phase.setText("Starting" if again is None else "Connecting")
        self.progress.setRange(0, 0)
        self._began = time.monotonic()
        try:
            from_thread = self._jobs.on_gui_thread
            recording = Recording(
                request,
                on_text=from_thread(self._take_text),
                on_event=from_thread(self._take_event),
                again=again,
            )
        except CaptureProblem as problem:
            self._failed(problem)
            return
        self._recording = recording
        self.finish.setEnabled(True)
        self.kill.setEnabled(True)
        self.finish.setFocus(Qt.FocusReason.OtherFocusReason)
        for timer in (self._clock, self._flusher, self._gpu_clock):
            timer.start()

        def work(_: Progress) -> Outcome:
            return recording.run()

        self._jobs.ask("capture", work, self._done, self._failed)

    def kill_now(self) -> None:
        """End every process of the recording, without blocking the window."""
        recording = self._recording
        if recording is None:
            return
        self.phase.setText("Killing the program")
        self.finish.setEnabled(False)
        self.kill.setEnabled(False)
        self._jobs.ask("capture kill", lambda _: recording.kill(), lambda _: None, lambda _: None)

    def end_now(self) -> None:
        """Kill and wait until nothing of the recording is left: the window is about to go."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.kill()

    def finish_now(self) -> None:
        """End the recording at the next opportunity and keep what it has."""
        recording = self._recording
        if recording is None:
            return
        self.output.setFocus(Qt.FocusReason.OtherFocusReason)  # else Qt passes the focus on to Kill
        self.finish.setEnabled(False)
        self.phase.setText("Finishing the recording")
        self._jobs.ask("capture finish", lambda _: recording.finish_now(), lambda _: None, lambda _: None)

    def _done(self, outcome: Outcome) -> None:
        self._settle()
        self.progress.setRange(0, 1)
        self.progress.setValue(1 if outcome.recordings else 0)
        if outcome.recordings:
            failed = "The script failed; the steps before that are kept"
            self.phase.setText(failed if outcome.traceback else f"Recorded in {outcome.elapsed_s:.1f} s")
            self.advice.setText("\n".join(str(path) for path in outcome.recordings))
        else:
            self.phase.setText(outcome.problem)
            self.advice.setText(outcome.fix)
            self._offer_retry(outcome)
            self._left = outcome.left
            self.fetch.setVisible(outcome.left is not None)
        if outcome.traceback:
            failure = outcome.traceback.rstrip()
            before = self.output.toPlainText().replace(failure, "", 1).strip()
            self.output.setPlainText(
                f"{failure}\n\n--- all other output ---\n{before}" if before else failure
            )
            self.output.moveCursor(QTextCursor.MoveOperation.Start)
        self.ended.emit(outcome)

    def _offer_retry(self, outcome: Outcome) -> None:
        self._retry_request = outcome.retry
        if outcome.retry is not None:
            whole = outcome.retry.window.steps == "whole" or outcome.retry.tool is not Tool.TORCH
            self.retry.setText("Record the whole run instead" if whole else "Record fewer steps instead")
            self.retry.show()

    def _failed(self, error: Exception) -> None:
        self._settle()
        self.progress.setRange(0, 1)
        self.progress.setValue(0)
        problem = (
            error if isinstance(error, CaptureProblem) else CaptureProblem(f"The recording failed: {error}.")
        )
        self.phase.setText(problem.problem)
        self.advice.setText(problem.fix)
        self.ended.emit(problem)

    def _settle(self) -> None:
        self._recording = None
        if self.finish.hasFocus() or self.kill.hasFocus():
            self.output.setFocus(Qt.FocusReason.OtherFocusReason)
        for timer in (self._clock, self._flusher, self._gpu_clock):
            timer.stop()
        self._jobs.forget("gpu use")
        self._flush()
        self._tick()
        self.finish.setEnabled(False)
        self.kill.setEnabled(False)

    def _take_text(self, text: str) -> None:
        self._pending.append(text)
        self._pending_length += len(text)
        while self._pending_length > MAX_SHOWN_LENGTH and len(self._pending) > 1:
            self._pending_length -= len(self._pending.pop(0))

    def _take_event(self, event: Event) -> None:
        if self._recording is None or not self.kill.isEnabled():
            return
        if event.phase in ("problem", "failed", "done", "written"):
            return
        rank = f" (rank {event.rank})" if event.rank >= 0 else ""
        self.phase.setText(f"{capital(event.sentence)}{rank}")
        step, of, percent = (event.values.get(key) for key in ("step", "of", "percent"))
        if isinstance(step, int) and isinstance(of, int):
            self.progress.setRange(0, of)
            self.progress.setValue(step if event.phase == "recording" else 0)
        elif isinstance(percent, int):
            self.progress.setRange(0, 100)
            self.progress.setValue(percent)
        else:
            self.progress.setRange(0, 0)

    def _flush(self) -> None:
        """Append what has come; a carriage return starts the last line over, as in a terminal."""
        if not self._pending:
            return
        text, self._pending, self._pending_length = "".join(self._pending), [], 0
        bar = self.output.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 4
        lines = text.replace("\r\n", "\n").split("\n")
        kept = [
            line.rstrip("\r").rpartition("\r")[2] + ("\r" if line.endswith("\r") else "") for line in lines
        ]
        cursor = QTextCursor(self.output.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if self._line_restarts or lines[0].startswith("\r") or "\r" in lines[0].rstrip("\r"):
            cursor.select(QTextCursor.SelectionType.LineUnderCursor)
            cursor.removeSelectedText()
        self._line_restarts = kept[-1].endswith("\r")
        cursor.insertText("\n".join(line.rstrip("\r") for line in kept))
        if follows:
            bar.setValue(bar.maximum())

    def _tick(self) -> None:
        seconds = int(time.monotonic() - self._began)
        self.elapsed.setText(f"{seconds // 60}:{seconds % 60:02d}")

    def _ask_gpu(self) -> None:
        if (
            self._recording is not None
            and not self._recording.request.on
            and not self._jobs.is_running("gpu use")
        ):
            self._jobs.ask("gpu use", lambda _: gpu_use(), self._show_gpu, lambda _: None)

    def _show_gpu(self, used: list[GpuUse]) -> None:
        self.gpu.setText("   ".join(use.sentence for use in used[:4]))

    def _timer(self, milliseconds: int, call: object) -> QTimer:
        timer = QTimer(self)
        timer.setInterval(milliseconds)
        timer.timeout.connect(call)
        return timer

    def _lay_out(self) -> None:
        column = vertical(self, NO_MARGINS, 8)
        head = fill(QHBoxLayout(), (self.phase, 1), (self.elapsed, 0, Qt.AlignmentFlag.AlignTop))
        fill(column, head, self.progress, self.advice)
        for button in (self.retry, self.fetch):
            column.addWidget(button, alignment=Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.output, 1)
        foot = fill(QHBoxLayout(), (self.gpu, 1), self.finish, self.kill)
        column.addLayout(foot)
