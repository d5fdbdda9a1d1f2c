"""The rows of a trial: a change, its promise and what was measured on one axis, and what became of the result."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QVBoxLayout, QWidget

from parsers.model.units import three_digits
from rules.trials.trial import Candidate, Kind, Trial, Trials, Verdict
from rules.verdict import trials as wording
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, Label, horizontal, push_button, vertical
from viewer.capture.trials.source import Source
from viewer.panels.charts.gain_axis import GainAxis

PROMISED_WIDTH, FIGURE_WIDTH, SIDE = 132, 112, 12
NAME_SHARE, CHART_SHARE, RESULT_SHARE = 30, 38, 32
MIN_HEIGHT, AXIS_HEIGHT, BAND_HEIGHT = 48, 24, 26
PALE = 0.22
WAITING = "waiting"


def color_of(trial: Trial | None) -> QColor:
    """Blue is proved, yellow a ceiling, green all that won, grey no difference, red slower."""
    colors = theme.current()
    if trial is None or trial.verdict not in (Verdict.PROVED, Verdict.SLOWER):
        return colors.grey
    if trial.verdict is Verdict.SLOWER:
        return colors.error
    kinds = {Kind.CEILING: colors.warning, Kind.TOGETHER: colors.good, Kind.CONTROL: colors.grey}
    return kinds.get(trial.candidate.kind, colors.accent)


class MeasuredCell(QWidget):
    """The gain as a figure, and its band on that of the promise."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self.candidate = candidate
        self.trial: Trial | None = None
        self.axis = GainAxis.around(())
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        return QSize(FIGURE_WIDTH + 200, MIN_HEIGHT)

    def show_trial(self, trial: Trial | None, axis: GainAxis) -> None:
        self.trial, self.axis = trial, axis
        gain = trial.gain if trial is not None else None
        self.setAccessibleName(wording.times(gain) if gain is not None else "not measured")
        self.update()

    def x_of(self, gain: float) -> float:
        """Where a gain lies in the cell, in pixels."""
        return FIGURE_WIDTH + self.axis.share(gain) * _axis_width(self)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors, middle = QPainter(self), theme.current(), self.height() / 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for mark in self.axis.marks(_axis_width(self)):
            painter.setPen(QPen(colors.line_strong if mark == 1.0 else colors.grid, 1))
            painter.drawLine(QPointF(self.x_of(mark), 0), QPointF(self.x_of(mark), self.height()))
        trial, color = self.trial, color_of(self.trial)
        promised = self.candidate.promised
        painter.setPen(Qt.PenStyle.NoPen)
        if promised is not None:
            painter.setBrush(theme.mixed(color, colors.panel, PALE))
            left, right = self.x_of(promised.low), self.x_of(promised.high)
            painter.drawRoundedRect(
                QRectF(left, middle - BAND_HEIGHT / 2, max(right - left, 4), BAND_HEIGHT), 4, 4
            )
        if trial is None or trial.gain is None:
            return
        painter.setPen(QPen(color, 4, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawLine(
            QPointF(self.x_of(trial.gain.low), middle), QPointF(self.x_of(trial.gain.high), middle)
        )
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawEllipse(QPointF(self.x_of(trial.gain.value), middle), 5.5, 5.5)
        self._write(painter, *wording.gain_and_bounds(trial.gain), color)

    def _write(self, painter: QPainter, value: str, bounds: str, color: QColor) -> None:
        middle = self.height() / 2
        if color == theme.current().grey:  # which text of this size is hard to read in
            color = theme.current().text_faint
        for text, top, pixels, weight, ink in (
            (value, middle - 19, 15, QFont.Weight.DemiBold, color),
            (bounds, middle + 1, theme.SECONDARY_PX, QFont.Weight.Normal, theme.current().text_secondary),
        ):
            painter.setFont(theme.font(pixels, weight, tabular=True))
            painter.setPen(ink)
            painter.drawText(QRectF(0, top, FIGURE_WIDTH - 8, 20), Qt.AlignmentFlag.AlignVCenter, text)


class TrialRow(QWidget):
    """One candidate, as far as it is known."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self.candidate = candidate
        self.trial: Trial | None = None
        self.setMinimumHeight(MIN_HEIGHT)
        bold = QFont.Weight.DemiBold if candidate.kind is Kind.TOGETHER else QFont.Weight.Normal
        names = _stack(
            Label(candidate.title, wrap=True, weight=bold),
            Label(wording.KINDS[candidate.kind], "secondary", pixels=theme.SECONDARY_PX, wrap=True),
        )
        promised = Label(
            wording.promise(candidate.promised) if candidate.promised is not None else "", pixels=12
        )
        promised.setFixedWidth(PROMISED_WIDTH)
        self.cell = MeasuredCell(candidate)
        self.result = Label(WAITING, wrap=True)
        self.more = Label("", "secondary", pixels=theme.SECONDARY_PX, wrap=True)
        row = horizontal(self, (SIDE, 0, SIDE, 0), 12)
        row.addLayout(names, NAME_SHARE)
        row.addWidget(promised)
        row.addWidget(self.cell, CHART_SHARE)
        row.addLayout(_stack(self.result, self.more), RESULT_SHARE)
        self.patch_button = push_button("Patch")
        self.patch_button.setAccessibleName(f"Patch for {candidate.title}")
        self.patch_button.setToolTip("Shows the lines that write this change into your script")
        kept = self.patch_button.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        self.patch_button.setSizePolicy(kept)
        self.patch_button.hide()
        row.addWidget(self.patch_button)

    def show_trial(self, trial: Trial | None, doing: str = "") -> None:
        """``doing`` is said of one that is not done."""
        self.trial = trial
        done = trial is not None and not doing
        self.result.setText(wording.meaning(trial) if trial is not None and done else doing or WAITING)
        self.more.setText("; ".join(wording.about(trial)) if trial is not None and done else "")
        self.more.setVisible(bool(self.more.text()))
        self.setAccessibleName(
            wording.line(trial)
            if trial is not None and done
            else f"{self.candidate.title}: {doing or WAITING}"
        )

    def gains(self) -> list[float]:
        """What its axis has to hold."""
        promised, gain = self.candidate.promised, self.trial.gain if self.trial is not None else None
        found = [promised.low, promised.high] if promised is not None else []
        return [*found, gain.low, gain.high] if gain is not None else found


class AxisRow(QWidget):
    """What the columns are called, and the numbers of the axis; as wide as the rows below it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = _Scale()
        row = horizontal(self, (SIDE, 0, SIDE, 0), 12)
        row.addWidget(_heading("Change"), NAME_SHARE)
        promised = Label("Promised", "secondary", pixels=12)
        promised.setFixedWidth(PROMISED_WIDTH)
        row.addWidget(promised)
        row.addWidget(self.cell, CHART_SHARE)
        row.addWidget(_heading("Result of the program"), RESULT_SHARE)
        room = QPushButton("Patch")
        room.setEnabled(False)
        kept = room.sizePolicy()
        kept.setRetainSizeWhenHidden(True)
        room.setSizePolicy(kept)
        room.hide()
        row.addWidget(room)


class _Scale(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.axis = GainAxis.around(())
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Measured")

    def sizeHint(self) -> QSize:
        return QSize(FIGURE_WIDTH + 200, AXIS_HEIGHT)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(theme.current().text_secondary)
        painter.setFont(theme.font(12))
        room = QRectF(0, 0, FIGURE_WIDTH, self.height())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, "Measured")
        painter.setFont(theme.font(theme.SECONDARY_PX, tabular=True))
        width = _axis_width(self)
        for mark in self.axis.marks(width):
            x = FIGURE_WIDTH + self.axis.share(mark) * width
            painter.drawText(
                QRectF(x - 24, 0, 48, self.height()), Qt.AlignmentFlag.AlignCenter, f"{_short(mark)}x"
            )


class TrialRows(QWidget):
    """All rows, in the order of the candidates; the axis is theirs together.

    ``patch_wanted`` carries the names of the changes whose lines somebody wants to see.
    """

    patch_wanted = Signal(tuple)

    def __init__(self, axis: AxisRow) -> None:
        super().__init__()
        self._axis = axis
        axis.hide()
        self.rows: dict[str, TrialRow] = {}
        self._column = vertical(self, NO_MARGINS, 0)
        self._column.addStretch(1)

    def show_candidates(self, candidates: Iterable[Candidate]) -> None:
        """Rows for exactly these, of which nothing is known yet."""
        for row in self.rows.values():
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = {}
        for candidate in candidates:
            self.row(candidate)
        self._fit()

    def row(self, candidate: Candidate) -> TrialRow:
        """The row of a candidate, which comes at the end if there is none yet."""
        if candidate.switch not in self.rows:
            row = self.rows[candidate.switch] = TrialRow(candidate)
            self._column.insertWidget(self._column.count() - 1, row)
            row.show_trial(None)
        return self.rows[candidate.switch]

    def show_trial(self, trial: Trial, doing: str = "") -> None:
        """One that makes no sense in the program has no row."""
        row = self.row(trial.candidate)
        row.setVisible(not trial.candidate.against)
        row.show_trial(trial, doing)
        self._fit()

    def offer_patches(self, trials: Trials, source: Source) -> None:
        """A button beside each gain that a few lines of the script keep."""
        for trial in trials.trials:
            row = self.rows.get(trial.candidate.switch)
            switches = trial.members or (trial.candidate.switch,)
            if row is None or not trial.is_a_gain or not source.patch(switches).files:
                continue
            row.patch_button.clicked.connect(lambda _=False, names=switches: self.patch_wanted.emit(names))
            row.patch_button.show()

    def _fit(self) -> None:
        axis = GainAxis.around(
            gain for row in self.rows.values() if not row.isHidden() for gain in row.gains()
        )
        self._axis.setVisible(bool(self.rows))
        self._axis.cell.axis = axis
        self._axis.cell.update()
        for row in self.rows.values():
            row.cell.show_trial(row.trial, axis)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._axis.setMaximumWidth(self.width())

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        shown = [row for row in self.rows.values() if not row.isHidden()]
        for number, row in enumerate(shown):
            if number % 2 == 0:
                painter.fillRect(row.geometry(), colors.strip)


def _axis_width(cell: QWidget) -> int:
    """What is left for the axis beside the figure, in pixels."""
    return max(cell.width() - FIGURE_WIDTH - SIDE, 1)


def _stack(*labels: Label) -> QVBoxLayout:
    column = vertical(margins=(0, 4, 0, 4), spacing=1)
    column.addStretch(1)
    for label in labels:
        column.addWidget(label)
    column.addStretch(1)
    return column


def _heading(text: str) -> Label:
    label = Label(text, "secondary", pixels=12)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return label


def _short(mark: float) -> str:
    return three_digits(mark).rstrip("0").rstrip(".")
