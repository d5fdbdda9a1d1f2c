"""One finding as a card: title, ceiling, share, what happens, what to do; the current one opens up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from parsers.model.units import duration, percent
from rules import Finding
from rules.terms import SourceLine
from rules.verdict.promises import advice_on, gain
from rules.wording.words import short_place
from viewer.appearance import theme
from viewer.appearance.tab_order import LIST_ITEM
from viewer.appearance.widgets import Figure, Label, breakable, horizontal, tooltip, unbroken, vertical
from viewer.panels.findings.card_parts import CodeBox, ShareBar, Stairs, link_button, share_in_words
from viewer.query.explained import can_be_explained, promise_behind

if TYPE_CHECKING:
    from rules.fixes.plan import Plan, Promise
    from viewer.capture.request import CaptureRequest

SHORT_LINES = 2
TextAround = Callable[[SourceLine], tuple[str, str]]  # the lines around it, and what stands beside them
NextRecording = Callable[[Finding], "tuple[str, CaptureRequest] | None"]


def _unbroken(text: str) -> str:
    return breakable(unbroken(" ".join(text.split())))


class LineClampedLabel(QLabel):
    """Wrapped plain text of at most so many lines (0: all of them); the last one ends in an ellipsis."""

    def __init__(self, text: str, lines: int, role: str = "") -> None:
        super().__init__()
        self._fitted: dict[tuple[int, int], tuple[str, int]] = {}
        self._whole, self._lines = _unbroken(text), lines
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setText(self._whole)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        if role:
            self.setProperty("role", role)

    def say(self, text: str) -> None:
        """Another text, in as many lines at most."""
        self._whole = _unbroken(text)
        self._fitted.clear()
        self.set_lines(self._lines)

    def set_lines(self, lines: int) -> None:
        self._lines = lines
        self.setText(self._fit(self.width())[0])
        self.updateGeometry()

    def heightForWidth(self, width: int) -> int:
        return self._fit(width)[1]

    def sizeHint(self) -> QSize:
        return QSize(320, self.heightForWidth(320))

    def minimumSizeHint(self) -> QSize:
        return QSize(60, self.fontMetrics().lineSpacing())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        shown, _ = self._fit(self.width())
        if shown != self.text():
            self.setText(shown)

    def _height_of(self, text: str, width: int) -> int:
        room = QRect(0, 0, max(width, 60), 100_000)
        flags = int(Qt.TextFlag.TextWordWrap)
        return self.fontMetrics().boundingRect(room, flags, text).height() + 2

    def _fit(self, width: int) -> tuple[str, int]:
        """The text as far as it is shown, and its height."""
        known = self._fitted.get((width, self._lines))
        if known is None:
            text = self._clamp(width)
            known = self._fitted[width, self._lines] = text, self._height_of(text, width)
        return known

    def _clamp(self, width: int) -> str:
        most = self.fontMetrics().lineSpacing() * self._lines + 4

        def fits(text: str) -> bool:
            return self._height_of(text, width) <= most

        if not self._lines or fits(self._whole):
            return self._whole
        words = self._whole.split(" ")
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(" ".join(words[:middle]) + " ...") else (low, middle - 1)
        return " ".join(words[:low]) + " ..."


class FindingCard(QFrame):
    """A finding; ``chosen`` when the user wants to see it, ``shown`` for its Show button."""

    accessible_role = LIST_ITEM

    chosen = Signal(object)
    record_wanted = Signal(object)  # CaptureRequest
    line_wanted = Signal(object)  # SourceLine
    ticket_wanted = Signal(object)  # Finding
    sum_wanted = Signal(object)  # Finding
    gain_wanted = Signal(object)  # Promise
    walked = Signal(int)  # +1 or -1: next or previous evidence
    passed = Signal(int)  # +1 or -1: next or previous finding

    def __init__(
        self,
        finding: Finding,
        explanation: Mapping[str, str] | None = None,
        next_recording: NextRecording = lambda _: None,
        plan: Plan | None = None,
        text_around: TextAround = lambda _: ("", ""),
    ) -> None:
        super().__init__()
        self.finding = self._told = finding
        self._text_around = text_around
        self._next_recording = next_recording
        self._plan = plan
        self._explanation = explanation or {}
        self._current = False
        self._color = theme.current().category(finding.category)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(f"{finding.title}. {self.ceiling}")
        self.setAccessibleDescription(finding.explanation)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._layout = vertical(self, (16, 10, 12, 10), 6)
        self._build()

    @property
    def ceiling(self) -> str:
        """ "about 2.3x", or what is left of the recording without what belongs to it alone."""
        return gain(self._told, self._plan, short=True)

    def tell(self, plan: Plan) -> None:
        """Say what fixes give, which is known later than the finding."""
        self._plan = plan
        self._gain.explain(self._promise is not None)
        self.gives.setText(self.ceiling)
        self.gives.setVisible(bool(self.ceiling))
        self.advice.say("".join(self._told_advice[:1]))
        self.advice.setVisible(bool(self._told_advice))
        self.setAccessibleName(f"{self._told.title}. {self.ceiling}")

    def tell_as(self, told: Finding) -> None:
        """Say the finding with its share of another step: with the recorder, or without."""
        self._told = told
        self.title.setText(self._title)
        self.share.setText(share_in_words(self._told))
        if self._bar is not None:
            self._bar.show_finding(told)
        self.gives.setText(self.ceiling)
        self.setAccessibleName(f"{told.title}. {self.ceiling}")

    @property
    def _told_advice(self) -> tuple[str, ...]:
        return advice_on(self.finding, self._plan)

    @property
    def _promise(self) -> Promise | None:
        """The fix whose gain is told, where that is the difference of two steps."""
        return promise_behind(self.finding, self._plan)

    @property
    def _title(self) -> str:
        """What happens; the share of a step stands in the row of the bar, so that this is one line."""
        words = self._told.headline.beside_its_cost(self._told.reader)
        return breakable(unbroken(words.removesuffix(".")))

    def _build(self) -> None:
        finding = self.finding
        self.title = Label(self._title, weight=QFont.Weight.DemiBold, pixels=14, wrap=True)
        self._layout.addWidget(self.title)
        self.share = Label(share_in_words(self._told), "secondary", pixels=12, parent=self)
        figure = Figure(self.share)
        figure.explain(can_be_explained(finding))
        figure.clicked.connect(lambda: self.sum_wanted.emit(finding))
        self.share.setVisible(bool(share_in_words(self._told)))
        self.gives = Label(self.ceiling, "secondary", pixels=12, parent=self)
        self._gain = Figure(self.gives)
        self._gain.explain(self._promise is not None)
        self._gain.clicked.connect(lambda: self.gain_wanted.emit(self._promise))
        self.gives.setVisible(bool(self.ceiling))
        self._bar = ShareBar(finding, self._color) if finding.share > 0 else None
        row = horizontal(spacing=12)
        row.addWidget(self.share)
        if self._bar is not None:
            row.addWidget(self._bar, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.gives)
        self._layout.addLayout(row)
        self._what = LineClampedLabel(finding.explanation, SHORT_LINES, "secondary")
        self._layout.addWidget(self._what)
        if finding.after_steps:
            self._layout.addWidget(Stairs(finding.after_steps, self._color))
        self.advice = LineClampedLabel("".join(self._told_advice[:1]), SHORT_LINES)
        self._layout.addWidget(self.advice)
        self.advice.setVisible(bool(self._told_advice))
        self._detail: QWidget | None = None

    @cached_property
    def show_button(self) -> QPushButton:
        button = link_button("Show", "Show its longest occurrence on the timeline")
        button.clicked.connect(lambda: self.chosen.emit(self.finding))
        return button

    @cached_property
    def fix_button(self) -> QPushButton:
        return self._opening("How to fix", "Code, caveats, and what to record next")

    @cached_property
    def why_button(self) -> QPushButton:
        return self._opening("Why", "How this was decided, and when it may be wrong")

    def _opening(self, text: str, tip: str) -> QPushButton:
        button = link_button(text, tip)
        button.setCheckable(True)
        button.toggled.connect(lambda on: self._open(button if on else None))
        return button

    @cached_property
    def ticket_button(self) -> QPushButton:
        button = link_button("Ticket ...", "Write it down for others, with a picture, as Markdown")
        button.clicked.connect(lambda: self.ticket_wanted.emit(self.finding))
        return button

    @cached_property
    def _buttons(self) -> QWidget:
        """Made when the card is opened for the first time: most cards never are."""
        buttons = QWidget()
        rows = vertical(buttons, (0, 2, 0, 0), 6)
        row = horizontal(spacing=6)
        shown = [self.fix_button, self.why_button, self.ticket_button]
        for button in [self.show_button, *shown] if self.finding.evidence else shown:
            row.addWidget(button)
        row.addStretch(1)
        rows.addLayout(row)
        if (line := self.finding.at) is not None:
            name = f"Open {short_place(line.text)} in the editor"
            self.line_button = link_button(name, tooltip(line.told))
            self.line_button.clicked.connect(lambda: self.line_wanted.emit(line))
            rows.addWidget(self.line_button, 0, Qt.AlignmentFlag.AlignLeft)
        self._layout.addWidget(buttons)
        return buttons

    def set_current(self, current: bool) -> None:
        if current == self._current:
            return
        self._current = current
        self._buttons.setVisible(current)
        for label in (self._what, self.advice):
            label.set_lines(0 if current else SHORT_LINES)
        if not current:
            self.fix_button.setChecked(False)
            self.why_button.setChecked(False)
        self.update()

    @property
    def is_current(self) -> bool:
        return self._current

    def _open(self, button: QPushButton | None) -> None:
        if self._detail is not None:
            self._detail.hide()
            self._detail.deleteLater()
            self._detail = None
        if button is None:
            return
        other = self.why_button if button is self.fix_button else self.fix_button
        other.blockSignals(True)
        other.setChecked(False)
        other.blockSignals(False)
        self._detail = self._how_to_fix() if button is self.fix_button else self._why()
        self._layout.addWidget(self._detail)

    def _how_to_fix(self) -> QWidget:
        body, layout = _section()
        for advice in self._told_advice[1:]:
            layout.addWidget(Label(f"•  {advice}", wrap=True, selectable=True))
        if self.finding.code:
            layout.addWidget(CodeBox(self.finding.code))
        if (line := self.finding.at) is not None:
            layout.addWidget(
                Label(line.told, weight=QFont.Weight.DemiBold, pixels=12, wrap=True, selectable=True)
            )
            text, beside = self._text_around(line)
            if text:
                layout.addWidget(CodeBox(text))
            if beside:
                layout.addWidget(Label(beside, "secondary", pixels=12, wrap=True, selectable=True))
        if self.finding.cannot_tell:
            layout.addWidget(
                Label("What this recording does not show", weight=QFont.Weight.DemiBold, pixels=12)
            )
            layout.addWidget(Label(self.finding.cannot_tell, "secondary", wrap=True, selectable=True))
        if (offered := self._next_recording(self.finding)) is not None:
            text, request = offered
            self.record_button = link_button(
                f"{text} ...", "Opens the form for recording, with the tool and options that show more"
            )
            self.record_button.clicked.connect(lambda: self.record_wanted.emit(request))
            layout.addWidget(self.record_button, 0, Qt.AlignmentFlag.AlignLeft)
        if not layout.count():
            layout.addWidget(Label("No further details.", "secondary"))
        return body

    def _why(self) -> QWidget:
        finding = self.finding
        body, layout = _section()
        facts = [
            f"rule {finding.rule}",
            f"severity {finding.severity.value}",
            f"confidence {finding.confidence}",
        ]
        if finding.window_ns:
            share = percent(finding.share)
            facts.insert(0, f"{duration(finding.ceiling_ns)} of {duration(finding.window_ns)} ({share})")
        if finding.evidence:
            facts.append(f"{len(finding.evidence)} places on the timeline")
        layout.addWidget(Label("  ·  ".join(facts), "secondary", pixels=12, wrap=True))
        if can_be_explained(finding):
            self.sum_button = link_button("Show the sum in SQL", "The rows that it counts, added up")
            self.sum_button.clicked.connect(lambda: self.sum_wanted.emit(finding))
            layout.addWidget(self.sum_button, 0, Qt.AlignmentFlag.AlignLeft)
        if (promise := self._promise) is not None:
            self.gain_button = link_button("Show the gain in SQL", "The parts of a step, before and after")
            self.gain_button.clicked.connect(lambda: self.gain_wanted.emit(promise))
            layout.addWidget(self.gain_button, 0, Qt.AlignmentFlag.AlignLeft)
        for heading, text in self._explanation.items():
            layout.addWidget(Label(heading, weight=QFont.Weight.DemiBold, pixels=12))
            layout.addWidget(Label(text, "secondary", wrap=True, selectable=True))
        return body

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.chosen.emit(self.finding)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.chosen.emit(self.finding)
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.walked.emit(1 if event.key() == Qt.Key.Key_Right else -1)
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.passed.emit(1 if event.key() == Qt.Key.Key_Down else -1)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colors = theme.current()
        body = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self.hasFocus():
            painter.setPen(QPen(colors.text, 1.8))
        else:
            painter.setPen(
                QPen(colors.accent if self._current else colors.line, 1.4 if self._current else 1.0)
            )
        painter.setBrush(colors.window)
        painter.drawRoundedRect(body, 6, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.category(self.finding.category))
        painter.drawRoundedRect(QRectF(1, 8, 4, self.height() - 16), 2, 2)


def _section() -> tuple[QWidget, QVBoxLayout]:
    body = QWidget()
    layout = vertical(body, (0, 4, 0, 2), 6)
    return body, layout
