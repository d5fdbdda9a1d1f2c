"""The status bar: file, producer, events kept and lost, GPU, ranks; progress; cursor, selection and view times."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QProgressBar, QPushButton, QSizePolicy, QStatusBar, QToolButton

from parsers.model import Trace
from parsers.model.units import duration, how_many
from viewer.appearance import theme
from viewer.appearance.widgets import ElidedLabel, Label, tooltip
from viewer.documents.document import Document, Stage

SHOW_PROGRESS_AFTER_MS = 150


LONG_NS = 10_000_000_000  # from here on the ruler counts in seconds, too


class StatusBar(QStatusBar):
    """Follows a document; ``quality_wanted`` when the user clicks the badge of kept and lost events."""

    quality_wanted = Signal()

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self.setSizeGripEnabled(False)
        self.setContentsMargins(10, 0, 14, 0)
        self.file = ElidedLabel("", "secondary", pixels=12)
        self.file.setMaximumWidth(320)
        self.producer = Label("", "secondary", pixels=12)
        self.producer.setContentsMargins(8, 0, 0, 0)
        self.badge = QToolButton()
        self.badge.setAutoRaise(True)
        self.badge.setFont(theme.font(12))
        self.badge.clicked.connect(self.quality_wanted)
        self.machine = ElidedLabel("", "secondary", pixels=12)
        for widget in (self.file, self.producer, self.badge, self.machine):
            self.addWidget(widget)
        self.doing = Label("", "secondary", pixels=12)
        self.progress = QProgressBar()
        self.progress.setRange(0, 1000)
        self.progress.setTextVisible(False)
        self.progress.setFixedSize(140, 6)
        self.progress.setAccessibleName("Progress")
        self.cancel = QPushButton("Cancel")
        self.cancel.setFont(theme.font(12))
        self.cancel.setFixedHeight(22)
        self.cancel.setStyleSheet("padding: 0 10px;")
        self.cancel.clicked.connect(document.cancel)
        self.times = Label("", "secondary", pixels=12)
        self.times.setFont(theme.font(12, tabular=True))
        self.times.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Preferred)
        for right in (self.doing, self.progress, self.cancel, self.times):
            self.addPermanentWidget(right)
        self._cursor = self._selection = self._view = ""
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(SHOW_PROGRESS_AFTER_MS)
        self._patience.timeout.connect(lambda: self._show_progress(True))
        document.stage_changed.connect(self._on_stage)
        document.trace_changed.connect(self._on_trace)
        document.jobs.progressed.connect(self._on_progress)
        self._show_progress(False)
        self._on_trace(None)

    def _on_stage(self, stage: Stage) -> None:
        if stage in (Stage.LOADING, Stage.ANALYSING):
            if not self.progress.isVisible() and not self._patience.isActive():
                self.progress.setValue(0)
                self.doing.setText("Reading" if stage is Stage.LOADING else "Analysing")
                self._patience.start()
        else:
            self._patience.stop()
            self._show_progress(False)

    def _show_progress(self, on: bool) -> None:
        for widget in (self.doing, self.progress, self.cancel):
            widget.setVisible(on)

    def _on_progress(self, slot: str, fraction: float, doing: str) -> None:
        if slot in ("open", "analyse"):
            self.progress.setValue(round(1000 * fraction))
            self.doing.setText(doing[:1].upper() + doing[1:])

    def _on_trace(self, trace: Trace | None) -> None:
        shown = trace is not None
        for widget in (self.file, self.producer, self.badge, self.machine):
            widget.setVisible(shown)
        if trace is None:
            self.times.setText("")
            return
        left_out = frozenset(self._document.left_out)
        paths = [path for path in self._document.paths if path not in left_out]
        self.file.setText(
            paths[0].name if len(paths) == 1 else f"{len(paths)} files" if paths else "recording"
        )
        self.file.setToolTip(tooltip("\n".join(str(path) for path in paths)))
        producers = list(dict.fromkeys(each.producer for each in trace.inputs if each.producer))
        self.producer.setText(", ".join(producers[:2]))
        self._fill_badge(trace)
        self.machine.setText(machine_of(trace))

    def _fill_badge(self, trace: Trace) -> None:
        from rules.analysis.recording.completeness import is_cut

        quality = trace.quality
        count = how_many(quality.events_kept, "event")
        if not len(trace.events):
            samples = sum(len(counter.time) for counter in trace.counters)
            count = how_many(len(trace.kernels), "kernel") if trace.kernels else how_many(samples, "sample")
        if trace.is_of_results:
            count = how_many(quality.events_kept, "row")
        lost, repaired = quality.quarantined, quality.repaired
        state = f"{lost:,} left out" if lost else f"{repaired:,} repaired" if repaired else "all kept"
        if is_cut(trace):
            state = "cut off"
        if self._document.preview:
            state = "more to come"
        mark = "⚠ " if lost or is_cut(trace) else ""
        self.badge.setText(f"{mark}{count}, {state}")
        self.badge.setToolTip("What was read, repaired and left out, and why")
        self.badge.setAccessibleName(f"{count}, {state}. Show the list.")

    def set_cursor(self, when: int | None) -> None:
        """The time under the mouse, ns."""
        long = when is not None and abs(when) >= LONG_NS
        told = "" if when is None else f"{when / 1e9:,.6f} s" if long else f"{when / 1e6:,.3f} ms"
        self._cursor = told and f"cursor {told}"
        self._say()

    def set_selection(self, length: int | None) -> None:
        """The length of what is selected, ns."""
        self._selection = "" if length is None else f"selection {duration(length)}"
        self._say()

    def set_view(self, length: int | None) -> None:
        """The length of the visible part of the timeline, ns."""
        self._view = "" if length is None else f"view {duration(length)}"
        self._say()

    def _has_timeline(self) -> bool:
        trace = self._document.trace
        return trace is not None and (len(trace.events) > 0 or bool(trace.counters))

    def _say(self) -> None:
        parts = (self._cursor, self._selection, self._view) if self._has_timeline() else ()
        self.times.setText("    ".join(part for part in parts if part))


def machine_of(trace: Trace) -> str:
    """ "NVIDIA H200, 4 GPUs, 4 ranks"."""
    names = list(dict.fromkeys(device.name for device in trace.devices if device.name))
    names = names or list(dict.fromkeys(kernel.device_name for kernel in trace.kernels if kernel.device_name))
    parts = names[:2]
    if len(trace.devices) > 1:
        parts.append(f"{len(trace.devices)} GPUs")
    ranks = {device.rank for device in trace.devices if device.rank is not None}
    parts.append(
        f"{max(len(trace.ranks), len(ranks), 1)} rank{'s' * (max(len(trace.ranks), len(ranks)) > 1)}"
    )
    return ",  ".join(parts) if trace.devices or trace.ranks else "".join(names[:1])
