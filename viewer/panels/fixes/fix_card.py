"""One fix as a card: a tick, what a step would take, the band of the gain, and the findings that go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from parsers.model.units import capital
from rules.fixes.base import switches_for
from rules.trials.record import FixRecord, promise_here
from rules.trials.trial import Promised
from rules.verdict.promises import depends_on, factor, held_back, step_with, usually, worded, worded_shortly
from rules.verdict.trials import beside_promise, kept_here
from rules.wording.words import Reader
from viewer.appearance import theme
from viewer.appearance.headline import Pill
from viewer.appearance.tab_order import LIST_ITEM
from viewer.appearance.widgets import Figure, Label, fill, horizontal, tooltip, unbroken, vertical
from viewer.panels.charts.gain_axis import MARKED_ON_CARDS, OF_CARDS
from viewer.panels.tables.facts import LinkButton

if TYPE_CHECKING:
    from rules import Finding
    from rules.fixes.plan import Plan, Promise
    from rules.trials.record import KeptTrial

RANGE_WIDTH, RANGE_HEIGHT = 132, 20
MAX_REMOVED = 2
CARD_RIGHT = 12  # px from a range to the right edge of its card
SCALE_HEIGHT, SCALE_AIR = 14, 12


class GainRange(QWidget):
    """The band of a gain on an axis that all cards share, with a point for what is expected."""

    def __init__(self, promise: Promise) -> None:
        super().__init__()
        self.promise = promise
        self._measured: tuple[float, float, float] | None = None
        self._here: Promised | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(worded(promise))
        self.setToolTip(f"From {factor(promise.low)} to {factor(promise.high)}, on one axis for all fixes")

    def sizeHint(self) -> QSize:
        return QSize(RANGE_WIDTH, RANGE_HEIGHT)

    def x_of(self, gain: float) -> float:
        """Where a gain lies on the axis, in pixels."""
        return 3 + OF_CARDS.share(gain) * (self.width() - 6)

    def show_measured(self, measured: tuple[float, float, float] | None) -> None:
        """(low, gain, high) of a trial, drawn over the promise."""
        self._measured = measured
        self.update()

    def show_here(self, expected_here: Promised | None) -> None:
        """The promise as earlier trials on this machine would have it, drawn around it."""
        self._here = expected_here
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = self.height() / 2
        painter.setPen(QPen(colors.line_strong, 1))
        painter.drawLine(QPointF(3, middle), QPointF(self.width() - 3, middle))
        for mark in MARKED_ON_CARDS:
            painter.drawLine(QPointF(self.x_of(mark), middle - 3), QPointF(self.x_of(mark), middle + 3))
        promise = self.promise
        left, right = self.x_of(promise.low), self.x_of(promise.high)
        band = QColor(colors.good)
        band.setAlpha(90)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(band)
        painter.drawRoundedRect(QRectF(left, middle - 4, max(right - left, 4), 8), 4, 4)
        if self._here is not None:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.text_secondary, 1))
            left, right = self.x_of(self._here.low), self.x_of(self._here.high)
            painter.drawRoundedRect(QRectF(left, middle - 6.5, max(right - left, 4), 13), 4, 4)
            painter.setPen(Qt.PenStyle.NoPen)
        if self._measured is not None:
            low, gain, high = self._measured
            painter.setPen(QPen(colors.accent, 3, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            painter.drawLine(QPointF(self.x_of(low), middle), QPointF(self.x_of(high), middle))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.accent)
            painter.drawEllipse(QPointF(self.x_of(gain), middle), 4.5, 4.5)
        elif not promise.proposal.redesign:
            painter.setBrush(colors.good)
            painter.drawEllipse(QPointF(self.x_of(promise.expected), middle), 4.5, 4.5)


class GainScale(QWidget):
    """What the marks of all ranges below it stand for."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(RANGE_WIDTH + 2 * SCALE_AIR, SCALE_HEIGHT)
        self.setAccessibleName("Scale of the gains: 1x, 2x, 3x and 5x")

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_secondary)
        for mark in MARKED_ON_CARDS:
            x = SCALE_AIR + 3 + OF_CARDS.share(mark) * (RANGE_WIDTH - 6)
            box = QRectF(x - 16, 0, 32, self.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, f"{mark:g}x")


class FixCard(QFrame):
    """Space ticks it, Up and Down (or J and K) go to its neighbours."""

    accessible_role = LIST_ITEM

    ticked = Signal(str, bool)
    passed = Signal(int)  # +1 or -1: the next or the previous card
    finding_wanted = Signal(object)
    try_wanted = Signal(str)
    sum_wanted = Signal(object)  # Promise

    def __init__(self, promise: Promise, plan: Plan, removed: list[Finding], reader: Reader) -> None:
        super().__init__()
        self.promise = promise
        self._plan = plan
        proposal = promise.proposal
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(f"{proposal.title}. {worded(promise)}")
        layout = vertical(self, (14, 10, CARD_RIGHT, 10), 4)
        top = horizontal(spacing=8)
        self.chips: list[tuple[LinkButton, Finding]] = []
        self.box = QCheckBox()
        self.box.setAccessibleName(proposal.title)
        self.box.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.box.toggled.connect(lambda on: self.ticked.emit(promise.id, on))
        self.box.toggled.connect(lambda _: self.update())
        fill(
            top,
            (self.box, 0, Qt.AlignmentFlag.AlignTop),
            (Label(proposal.title, weight=QFont.Weight.DemiBold, wrap=True), 1),
        )
        self.gives = (
            Pill("redesign", worded(promise))
            if proposal.redesign
            else Label(worded_shortly(promise), pixels=12)
        )
        top.addWidget(self.gives, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(top)
        for advice in proposal.remedy.advice_for(reader)[:1]:
            layout.addWidget(Label(advice, "secondary", pixels=12, wrap=True))
        line = horizontal(spacing=8)
        self.step = Label(unbroken(step_with(promise, plan) or self._range_text), pixels=12, wrap=True)
        for label in () if isinstance(self.gives, Pill) else (self.gives, self.step):
            figure = Figure(label)
            figure.explain()
            figure.clicked.connect(lambda: self.sum_wanted.emit(promise))
        line.addWidget(self.step, 1)
        self.range = GainRange(promise)
        line.addWidget(self.range)
        layout.addLayout(line)
        self.measured = Label("", pixels=12, wrap=True, weight=QFont.Weight.DemiBold)
        self.measured.hide()
        layout.addWidget(self.measured)
        self.kept = Label(unbroken(usually(promise)), "secondary", pixels=12, wrap=True)
        if not self.kept.text():
            self.kept.hide()
        layout.addWidget(self.kept)
        if held := held_back(plan, promise):
            layout.addWidget(Label(unbroken(held), "secondary", pixels=12, wrap=True))
        if unknown := depends_on(promise):
            layout.addWidget(Label(f"Depends on {unknown}.", "faint", pixels=12, wrap=True))
        self.try_button = self._make_try_button() if switches_for(proposal) else None
        if removed or self.try_button is not None:
            layout.addLayout(self._foot(removed))

    def _make_try_button(self) -> QPushButton:
        button = QPushButton("Try")
        button.setProperty("chip", True)
        button.setToolTip("Makes the change in your running program and measures the gain")
        button.setAccessibleName(f"Try: {self.promise.proposal.title}")
        button.clicked.connect(lambda: self.try_wanted.emit(self.promise.id))
        return button

    def show_measured(self, trial: KeptTrial | None) -> None:
        """What a trial made of the promise stands beside it."""
        told = beside_promise(trial) if trial is not None else ""
        self.measured.setText(unbroken(capital(told)))
        self.measured.setVisible(bool(told))
        self.range.show_measured(trial.measured if trial is not None else None)

    def show_record(self, record: FixRecord | None) -> None:
        """How promises of this fix held on this machine, and what that makes of this one."""
        expected_here = promise_here(self._plan, self.promise, record) if record is not None else None
        told = kept_here(record, expected_here) if record is not None else usually(self.promise)
        self.kept.setText(unbroken(told))
        self.kept.setVisible(bool(told))
        self.range.show_here(expected_here)

    @property
    def _range_text(self) -> str:
        """What is said of a fix that promises no step."""
        most = f"up to {factor(self.promise.high)}"
        return f"{most}, no single estimate" if self.promise.proposal.redesign else most

    def _foot(self, removed: list[Finding]) -> QVBoxLayout:
        """The findings that go, and what tries the fix."""
        column = vertical(spacing=2)
        more = len(removed) - MAX_REMOVED
        said = "" if not removed else f"removes, and {more} more" if more > 0 else "removes"
        head = horizontal(spacing=8)
        head.addWidget(Label(said, "faint", pixels=12), 1, Qt.AlignmentFlag.AlignBottom)
        if self.try_button is not None:
            head.addWidget(self.try_button)
        column.addLayout(head)
        for finding in removed[:MAX_REMOVED]:
            chip = LinkButton(finding.title_in_short, sentence=True)
            chip.setToolTip(tooltip(f"Go to finding: {finding.title}"))
            chip.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self.chips.append((chip, finding))
            chip.clicked.connect(lambda _=False, each=finding: self.finding_wanted.emit(each))
            column.addWidget(chip)
        return column

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.box.toggle()
        elif key in (Qt.Key.Key_Down, Qt.Key.Key_J):
            self.passed.emit(1)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_K):
            self.passed.emit(-1)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter, colors = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        on = self.box.isChecked()
        pen = QPen(
            colors.text if self.hasFocus() else colors.accent if on else colors.line, 1.4 if on else 1.0
        )
        if self.promise.proposal.redesign:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(colors.window)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        categories = self.promise.proposal.categories
        painter.setBrush(colors.category(categories[0]) if categories else colors.grey)
        painter.drawRoundedRect(QRectF(1, 8, 4, self.height() - 16), 2, 2)
