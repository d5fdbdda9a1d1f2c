"""The budget bar: where the time, or the memory, of one device went, each part a button that shows its places."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QEnterEvent,
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from parsers.model.late import dataclass
from parsers.model.units import duration, percent, size
from rules.memory.kinds import Kind
from viewer.appearance import theme
from viewer.appearance.palette import HATCHED
from viewer.appearance.theme import Theme
from viewer.appearance.widgets import tooltip
from viewer.timeline.memory.colors import color_of

BAR_HEIGHT, THIN_HEIGHT = 22, 15
MIN_WIDTH = 3
SHORT_NAMES = {
    "communication": "communication",
    "copy": "copies",
    "other": "memset",
    "launch-bound": "launches",
    "synchronization": "sync",
    "allocator": "memory",
    "dependency": "between kernels",
    "unknown": "unknown",
    "pipeline-bubble": "pipeline",
    "residual": "rest",
}  # where there is no room for the label


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a budget; ``count`` is the number of intervals, -1 where that is not known.

    ``amount`` is in ns; of memory, which ``memory`` is used for, in bytes.
    """

    key: str
    label: str
    amount: int
    count: int = -1
    memory: Kind | None = None
    a_step: bool = False  # the amount is that of a typical step; the count is of all

    @property
    def told(self) -> str:
        if self.memory is not None:
            return size(self.amount)
        return duration(self.amount) + (" a step" if self.a_step else "")

    @property
    def hatched(self) -> bool:
        """Whether it is not known what it is."""
        return self.key in HATCHED or self.memory is Kind.UNKNOWN

    def color(self, colors: Theme) -> QColor:
        return colors.part(self.key) if self.memory is None else color_of(self.memory, colors)


class PartButton(QAbstractButton):
    """One part, as wide as its share; its name is drawn where it fits."""

    pointed_at = Signal(bool)  # the mouse or the focus came, or left
    explain_wanted = Signal()

    def __init__(self, part: Part, whole: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.part = part
        self.share = part.amount / max(whole, 1)
        count = f", {part.count:,} {'gap' if part.count == 1 else 'gaps'}" if part.count >= 0 else ""
        count += " in all" if count and part.a_step else ""
        text = f"{part.label}: {part.told} ({percent(self.share)}){count}"
        self.setText(text)
        self.setAccessibleName(text)
        self.setToolTip(tooltip(f"{text}\nClick to show it on the timeline, double-click for the sum"))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        super().mouseDoubleClickEvent(event)
        self.explain_wanted.emit()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.pointed_at.emit(True)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointed_at.emit(False)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.pointed_at.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.pointed_at.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.focusNextPrevChild(event.key() == Qt.Key.Key_Right)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colors = theme.current()
        fill = self.part.color(colors)
        lifted = self.underMouse() or self.hasFocus()
        hatched = self.part.hatched
        ground = theme.mixed(fill, colors.panel, 0.35) if hatched else fill
        if lifted:
            ground = ground.lighter(112)
        body = QRectF(self.rect()).adjusted(0, 0, -1, 0)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        painter.drawRoundedRect(body, 2, 2)
        if hatched:
            painter.setBrush(QBrush(QColor(fill), Qt.BrushStyle.BDiagPattern))
            painter.drawRoundedRect(body, 2, 2)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.text, 1.5))
            painter.drawRoundedRect(body.adjusted(1, 1, -1, -1), 2, 2)
        self._paint_name(painter, ground)

    @property
    def _font(self) -> QFont:
        return theme.font(
            12 if self.height() >= BAR_HEIGHT else theme.SECONDARY_PX - 1, QFont.Weight.DemiBold
        )

    @property
    def figure(self) -> str:
        """How much of the whole it is; of memory how much that is."""
        return percent(self.share) if self.part.memory is None else self.part.told

    @property
    def name(self) -> str:
        """What stands in it at its width; empty where nothing fits."""
        return self.shown_name(self.width() - 12)

    def shown_name(self, room: int) -> str:
        """The most that can be said of this part in so many pixels."""
        return name_that_fits(self.part.key, self.part.label, self.figure, QFontMetrics(self._font), room)

    def _paint_name(self, painter: QPainter, ground: QColor) -> None:
        text = self.name
        if not text:
            return
        painter.setFont(self._font)
        if self.part.hatched:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRect(
                QRect(4, 2, painter.fontMetrics().horizontalAdvance(text) + 6, self.height() - 4)
            )
        painter.setPen(theme.text_on(ground))
        painter.drawText(self.rect().adjusted(7, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, text)


class BudgetBar(QWidget):
    """The parts of one device's window side by side; every part is visible, however small."""

    chosen = Signal(int, str, str)  # device, key, label
    pointed_at = Signal(int, object)  # device, Part or None
    explain_wanted = Signal(int, str, str)  # like chosen
    laid_out = Signal()  # its parts have their widths

    def __init__(self, device: int, parts: Sequence[Part], whole: int, *, thin: bool = False) -> None:
        super().__init__()
        self.device = device
        self._thin = thin
        self.buttons = [PartButton(part, whole, self) for part in parts]
        for button in self.buttons:
            button.clicked.connect(
                lambda _=False, part=button.part: self.chosen.emit(device, part.key, part.label)
            )
            button.explain_wanted.connect(
                lambda part=button.part: self.explain_wanted.emit(device, part.key, part.label)
            )
            button.pointed_at.connect(
                lambda on, part=button.part: self.pointed_at.emit(device, part if on else None)
            )
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Where the time or memory goes")

    def sizeHint(self) -> QSize:
        return QSize(400, THIN_HEIGHT if self._thin else BAR_HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(60, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        widths = shared_widths([button.share for button in self.buttons], self.width())
        left = 0
        for button, width in zip(self.buttons, widths, strict=True):
            button.setGeometry(left, 0, width, self.height())
            left += width
        self.laid_out.emit()


def name_that_fits(key: str, label: str, share: str, metrics: QFontMetrics, room: float) -> str:
    """A part's label and share, a shorter name with it or without, whichever so many pixels hold; else nothing."""
    short = SHORT_NAMES.get(key, label.removeprefix("waiting for ").removeprefix("the "))
    texts = (f"{label} {share}", f"{short} {share}", short)
    return next((text for text in texts if metrics.horizontalAdvance(text) <= room), "")


def shared_widths(shares: Sequence[float], room: int) -> list[int]:
    """Whole pixels that add up to ``room``: by share, but at least ``MIN_WIDTH`` each where there is room."""
    if not shares:
        return []
    least = min(MIN_WIDTH, room // len(shares))
    whole = sum(shares) or 1.0
    widths = [max(round(room * share / whole), least) for share in shares]
    widest = max(range(len(widths)), key=widths.__getitem__)
    widths[widest] += room - sum(widths)
    return widths


HEIGHT, SWATCH, GAP = 14, 9, 16
LEAST = 0.01  # of a bar: less is hardly seen in it


class BarKey(QWidget):
    """A line below the bars: the colour and the name of each part that has none in its bar; gone where all have."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: Sequence[BudgetBar] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Names of narrow parts")

    def show_bars(self, bars: Sequence[BudgetBar]) -> None:
        self._bars = bars
        for bar in bars:
            bar.laid_out.connect(self._fit, Qt.ConnectionType.QueuedConnection)
        if all(bar.isVisible() for bar in bars):  # else they are laid out before they are seen
            self._fit()

    def _fit(self) -> None:
        self.setVisible(bool(self.entries()))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(60, HEIGHT)

    def entries(self) -> list[tuple[Part, str]]:
        """Each part without a name in its bar, the largest first; of one bar with its figure."""
        nameless: dict[str, PartButton] = {}
        for bar in self._bars:
            for button in bar.buttons:
                known = nameless.get(button.part.key, button)
                if button.share >= LEAST and not button.name and button.share >= known.share:
                    nameless[button.part.key] = button
        alone = len(self._bars) == 1
        return [
            (each.part, f"{each.part.label} {each.figure}" if alone else each.part.label)
            for each in sorted(nameless.values(), key=lambda button: -button.share)
        ]

    def shown(self) -> list[tuple[Part, str, int]]:
        """The entries that fit, with where each begins, in pixels."""
        found = []
        metrics = QFontMetrics(theme.font(theme.SECONDARY_PX))
        left = self.mapFromGlobal(self._bars[0].mapToGlobal(self._bars[0].rect().topLeft())).x()
        for part, text in self.entries():
            width = SWATCH + 5 + metrics.horizontalAdvance(text)
            if left + width > self.width():
                break
            found.append((part, text, left))
            left += width + GAP
        return found

    def paintEvent(self, _: QPaintEvent) -> None:
        if not self._bars:
            return
        painter, colors = QPainter(self), theme.current()
        painter.setFont(theme.font(theme.SECONDARY_PX))
        for part, text, left in self.shown():
            color = part.color(colors)
            box = QRect(left, (self.height() - SWATCH) // 2, SWATCH, SWATCH)
            painter.fillRect(box, theme.mixed(color, colors.panel, 0.35) if part.hatched else color)
            if part.hatched:
                painter.fillRect(box, QBrush(QColor(color), Qt.BrushStyle.BDiagPattern))
            painter.setPen(colors.text_secondary)
            rest = QRect(left + SWATCH + 5, 0, self.width(), self.height())
            painter.drawText(rest, Qt.AlignmentFlag.AlignVCenter, text)
