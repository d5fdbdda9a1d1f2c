"""One finding as a card: title, ceiling, share, what happens, what to do; the current one opens up."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from parsers.model.units import duration, percent, three_digits
from rules import Finding
from rules.base import EXPLANATION_HEADINGS
from viewer import theme
from viewer.category_colors import color_of
from viewer.labels import Label, unbroken


class ShareBar(QWidget):
    """A thin bar: which share of the window the finding could give back at most."""

    def __init__(self, share: float, color: QColor) -> None:
        super().__init__()
        self.share = min(max(share, 0.0), 1.0)
        self._color = color
        self.setFixedHeight(5)
        self.setAccessibleName(f"At most {percent(self.share)} of the time")

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.current().strip)
        whole = QRectF(0, 0.5, self.width(), 4)
        painter.drawRoundedRect(whole, 2, 2)
        if self.share > 0:
            painter.setBrush(self._color)
            painter.drawRoundedRect(QRectF(0, 0.5, max(self.width() * self.share, 4.0), 4), 2, 2)


class LineClampedLabel(QLabel):
    """Wrapped plain text of at most so many lines; the last one ends in an ellipsis."""

    def __init__(self, text: str, lines: int, role: str = "") -> None:
        super().__init__()
        self._whole, self.lines = unbroken(" ".join(text.split(" "))), lines
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        if role:
            self.setProperty("role", role)
        self._fit(320)

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit(self.width())

    def _fit(self, width: int) -> None:
        shown = self._whole if not self.lines else self._clamped(max(width, 60))
        if shown != self.text():
            self.setText(shown)
        height = self.heightForWidth(max(width, 60))
        if height != self.maximumHeight():
            self.setFixedHeight(height)

    def _clamped(self, width: int) -> str:
        metrics = self.fontMetrics()
        room = metrics.lineSpacing() * self.lines + 2

        def fits(text: str) -> bool:
            flags = int(Qt.TextFlag.TextWordWrap)
            return metrics.boundingRect(0, 0, width, 10_000, flags, text).height() <= room

        if fits(self._whole):
            return self._whole
        words = self._whole.split(" ")
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(" ".join(words[:middle]) + " ...") else (low, middle - 1)
        return " ".join(words[:low]) + " ..."


class FindingCard(QFrame):
    """A finding; ``chosen`` when the user wants to see it, ``shown`` for its Show button."""

    chosen = Signal(object)
    walked = Signal(int)  # +1 or -1: next or previous evidence

    def __init__(self, finding: Finding, rule_explanation: str = "") -> None:
        super().__init__()
        self.finding = finding
        self._rule_explanation = rule_explanation
        self._current = False
        self._color = color_of(finding.category, theme.current())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(f"{finding.title}. {self.ceiling}")
        self.setAccessibleDescription(finding.explanation)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(16, 10, 12, 10)
        self._layout.setSpacing(6)
        self._build()

    @property
    def ceiling(self) -> str:
        """ "at most 2.3x", or the share for something that cannot be sped up."""
        speedup = self.finding.speedup_at_most
        return f"at most {three_digits(speedup)}x" if speedup >= 1.01 else ""

    def _build(self) -> None:
        finding = self.finding
        top = QHBoxLayout()
        top.setSpacing(12)
        title = Label(finding.title.removesuffix("."), weight=QFont.Weight.DemiBold, pixels=14, wrap=True)
        top.addWidget(title, 1)
        if self.ceiling:
            ceiling = Label(self.ceiling, "secondary", pixels=12)
            ceiling.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignRight)
            ceiling.setContentsMargins(0, 2, 0, 0)
            top.addWidget(ceiling, 0)
        self._layout.addLayout(top)
        share = finding.ceiling_ns / finding.window_ns if finding.window_ns else 0.0
        if share > 0:
            self._layout.addWidget(ShareBar(share, self._color))
        self._what = LineClampedLabel(finding.explanation, 2, "secondary")
        self._layout.addWidget(self._what)
        self._advice = LineClampedLabel(finding.advice[0] if finding.advice else "", 2)
        if finding.advice:
            self._layout.addWidget(self._advice)
        self._buttons = QWidget()
        row = QHBoxLayout(self._buttons)
        row.setContentsMargins(0, 2, 0, 0)
        row.setSpacing(8)
        self.show_button = self._button("Show", "Fly to the longest evidence on the timeline")
        self.fix_button = self._button(
            "How to fix", "Code, limits, and the next recording to make", checkable=True
        )
        self.why_button = self._button(
            "Why we think so", "How this is decided, and when it is wrong", checkable=True
        )
        self.show_button.clicked.connect(lambda: self.chosen.emit(self.finding))
        self.fix_button.toggled.connect(lambda on: self._open(self.fix_button if on else None))
        self.why_button.toggled.connect(lambda on: self._open(self.why_button if on else None))
        shown = [self.fix_button, self.why_button]
        for button in [self.show_button, *shown] if finding.evidence else shown:
            row.addWidget(button)
        row.addStretch(1)
        self._layout.addWidget(self._buttons)
        self._detail: QWidget | None = None
        self._buttons.hide()

    @staticmethod
    def _button(text: str, tip: str, *, checkable: bool = False) -> QPushButton:
        button = QPushButton(text)
        button.setProperty("link", True)
        button.setCheckable(checkable)
        button.setToolTip(tip)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        return button

    def set_current(self, current: bool) -> None:
        """Open or close the card."""
        if current == self._current:
            return
        self._current = current
        self._buttons.setVisible(current)
        for label, lines in ((self._what, 2), (self._advice, 2)):
            label.lines = 0 if current else lines
            label._fit(label.width())
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
        for advice in self.finding.advice:
            layout.addWidget(Label(f"•  {advice}", wrap=True, selectable=True))
        if self.finding.code:
            layout.addWidget(_code(self.finding.code))
        if self.finding.cannot_tell:
            layout.addWidget(
                Label("What this recording cannot tell", weight=QFont.Weight.DemiBold, pixels=12)
            )
            layout.addWidget(Label(self.finding.cannot_tell, "secondary", wrap=True, selectable=True))
        if not self.finding.advice and not self.finding.code:
            layout.addWidget(Label("There is nothing to change here.", "secondary"))
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
            share = percent(finding.ceiling_ns / finding.window_ns)
            facts.insert(0, f"{duration(finding.ceiling_ns)} of {duration(finding.window_ns)} ({share})")
        if finding.evidence:
            facts.append(f"{len(finding.evidence)} places on the timeline")
        layout.addWidget(Label("  ·  ".join(facts), "secondary", pixels=12, wrap=True))
        for heading, text in explained(self._rule_explanation):
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
            self.focusNextPrevChild(event.key() == Qt.Key.Key_Down)
        else:
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(320, super().sizeHint().height())

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colors = theme.current()
        body = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        framed = self._current or self.hasFocus()
        painter.setPen(QPen(colors.accent if framed else colors.line, 1.4 if framed else 1.0))
        painter.setBrush(colors.window)
        painter.drawRoundedRect(body, 6, 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color_of(self.finding.category, colors))
        painter.drawRoundedRect(QRectF(1, 8, 4, self.height() - 16), 2, 2)


def explained(text: str) -> list[tuple[str, str]]:
    """The parts of a rule's explanation as (heading, text), by the fixed headings."""
    parts: list[tuple[str, list[str]]] = []
    for line in text.strip().splitlines():
        bare = line.strip().strip("#*:").strip()
        heading = next((each for each in EXPLANATION_HEADINGS if bare.startswith(each)), None)
        if heading is not None:
            rest = bare[len(heading) :].lstrip(":. ").strip()
            parts.append((heading, [rest] if rest else []))
        elif parts and line.strip():
            parts[-1][1].append(line.strip())
    return [(heading, " ".join(lines)) for heading, lines in parts if lines]


def _section() -> tuple[QWidget, QVBoxLayout]:
    body = QWidget()
    layout = QVBoxLayout(body)
    layout.setContentsMargins(0, 4, 0, 2)
    layout.setSpacing(6)
    return body, layout


def _code(text: str) -> QWidget:
    label = Label(text.strip("\n"), selectable=True)
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    family.setPixelSize(12)
    label.setFont(family)
    label.setMargin(8)
    label.setObjectName("code")
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
    colors = theme.current()
    label.setStyleSheet(
        f"background: {colors.strip.name()}; border-radius: 4px; color: {colors.text.name()};"
    )
    return label
