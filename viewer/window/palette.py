"""The search field and its result list: events, findings, lanes and actions by what the user types."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    QStringListModel,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QFont, QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionFrame,
    QStyleOptionViewItem,
    QToolButton,
    QWidget,
)

from parsers.model.late import dataclass
from viewer.appearance import theme
from viewer.appearance.key_names import key_names
from viewer.appearance.widgets import Label, vertical

Index = QModelIndex | QPersistentModelIndex

ROW_HEIGHT = 30
MAX_ROWS = 12
WALKED = ("event", "events", "similar")  # kinds of hits that lead from one event to the next
BESIDE_TEXT = 6  # px that Qt leaves free beside the text of a field, and a margin of our own


class Mode(Enum):
    """What the field searches."""

    ALL = "Search events, findings, actions"
    EVENTS = "Find events by name"


@dataclass(frozen=True, slots=True)
class Hit:
    """One row of the results: what it is, its name, a remark at the right, and what choosing it does."""

    kind: str
    title: str
    remark: str
    run: Callable[[], object]


class _Row(QStyledItemDelegate):
    """Paints kind, title and remark of a hit; plain text only."""

    def __init__(self, popup: ResultsPopup) -> None:
        super().__init__(popup)
        self._popup = popup

    def sizeHint(self, _: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(200, ROW_HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        hit, colors = self._popup.hits[index.row()], theme.current()
        rect: QRect = option.rect
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, colors.selection)
        painter.setFont(theme.font(theme.SECONDARY_PX))
        painter.setPen(colors.text_faint)
        centre = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(rect.adjusted(12, 0, 0, 0), centre | Qt.AlignmentFlag.AlignLeft, hit.kind)
        painter.drawText(rect.adjusted(0, 0, -12, 0), centre | Qt.AlignmentFlag.AlignRight, hit.remark)
        taken = painter.fontMetrics().horizontalAdvance(hit.remark) + 28
        painter.setFont(theme.font())
        painter.setPen(colors.text)
        room = rect.adjusted(74, 0, -taken, 0)
        painter.drawText(
            room,
            centre,
            painter.fontMetrics().elidedText(hit.title, Qt.TextElideMode.ElideMiddle, room.width()),
        )
        painter.restore()


class ResultsPopup(QFrame):
    """The list below the search field; a child of the window, so that it works on every platform."""

    chosen = Signal(str)  # the kind of the hit

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.window_below = parent
        self.setObjectName("results")
        self.hits: list[Hit] = []
        self._names = QStringListModel(self)
        self.list = QListView(self)
        self.list.setModel(self._names)
        self.list.setItemDelegate(_Row(self))
        self.list.setUniformItemSizes(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName("Results")
        self.list.clicked.connect(lambda index: self.run(index.row()))
        self.note = Label("", "faint", pixels=12)
        self.note.setIndent(12)
        layout = vertical(self, (1, 4, 1, 1), 0)
        layout.addWidget(self.list)
        layout.addWidget(self.note)
        self.hide()

    def show_hits(self, hits: list[Hit], note: str) -> None:
        """Fill the list and mark the first row."""
        self.hits = hits
        self._names.setStringList([f"{hit.kind}: {hit.title}" for hit in hits])
        self.note.setText(note)
        if hits:
            self.list.setCurrentIndex(self._names.index(0, 0))

    def place(self, field: QRect) -> None:
        """Sit below the search field, as wide as is useful."""
        parent = self.window_below
        width = min(max(field.width() + 160, 560), parent.width() - 32)
        left = min(max(field.center().x() - width // 2, 16), parent.width() - width - 16)
        rows = min(max(len(self.hits), 0), MAX_ROWS)
        self.setGeometry(left, field.bottom() + 4, width, rows * ROW_HEIGHT + 34)
        self.list.setFixedHeight(rows * ROW_HEIGHT)
        self.show()
        self.raise_()

    def move_by(self, by: int) -> None:
        if self.hits:
            row = (self.list.currentIndex().row() + by) % len(self.hits)
            self.list.setCurrentIndex(self._names.index(row, 0))

    def run(self, row: int | None = None) -> bool:
        row = self.list.currentIndex().row() if row is None else row
        if not 0 <= row < len(self.hits):
            return False
        hit = self.hits[row]
        self.hide()
        self.chosen.emit(hit.kind)
        hit.run()
        return True


class SearchField(QLineEdit):
    """The one search field of the window. ``asked`` hands over text, mode and whether it is a regular expression."""

    asked = Signal(str, object, bool)
    walk_wanted = Signal(int)
    left = Signal()  # nobody types any more

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.mode = Mode.ALL
        self.popup = ResultsPopup(window)
        self.popup.chosen.connect(self._on_chosen)
        self._answered = True  # whether the hits that are shown are those of the text
        self._awaited = False  # whether Enter was pressed before they came
        self.setAccessibleName("Search")
        self.setClearButtonEnabled(False)
        self.setMinimumHeight(30)
        self.position = Label("", "faint", pixels=12, parent=self)
        self.regex = QToolButton(self)
        self.regex.setText(".*")
        self.regex.setCheckable(True)
        self.regex.setAutoRaise(True)
        self.regex.setFont(theme.font(12, QFont.Weight.DemiBold))
        self.regex.setToolTip("Regular expression")
        self.regex.setAccessibleName("Regular expression")
        self.regex.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.regex.setFixedSize(28, 22)
        self.regex.setStyleSheet("padding: 0;")
        self.regex.toggled.connect(lambda _: self._ask())
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(60)
        self._pause.timeout.connect(self._ask)
        self.textEdited.connect(self._on_edited)
        self.set_mode(Mode.ALL)
        self.say("")
        window.installEventFilter(self)

    def _on_chosen(self, kind: str) -> None:
        """What was typed stays only where F3 goes on with it."""
        if kind not in WALKED:
            self.clear()
            self.say("")
            self.set_mode(Mode.ALL)
        self.left.emit()

    def _on_edited(self, _: str) -> None:
        self.say("")
        self._answered = self._awaited = False
        self._pause.start()

    def set_mode(self, mode: Mode) -> None:
        """Search everything, or events only."""
        self.mode = mode
        self.regex.setVisible(mode is Mode.EVENTS)
        self._arrange()

    def start(self, mode: Mode) -> None:
        self.set_mode(mode)
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()
        self._ask()

    def say(self, text: str) -> None:
        """A remark at the right end, such as "3 of 240"; without one, the shortcut that leads here."""
        self.position.setText(text or ("" if self.text() else key_names("Ctrl P")))
        self._arrange()

    def show_hits(self, hits: list[Hit], note: str) -> None:
        """Show results below the field, unless the user has left it."""
        self.popup.show_hits(hits, note)
        self._answered = not self._pause.isActive()
        if self.hasFocus() or self.popup.isVisible():
            top_left = self.mapTo(self.popup.window_below, QPoint(0, 0))
            self.popup.place(QRect(top_left, self.size()))
            if self._awaited and self._answered:
                self.popup.run()
        self._awaited = self._awaited and not self._answered

    def ask_again(self) -> None:
        """After what is searched has changed, while results are shown."""
        if self.popup.isVisible():
            self._ask()

    def _ask(self) -> None:
        self._pause.stop()
        self._answered = False
        self.asked.emit(self.text(), self.mode, self.mode is Mode.EVENTS and self.regex.isChecked())

    def _arrange(self) -> None:
        right = self.width() - 6
        if self.regex.isVisibleTo(self):
            right -= self.regex.width()
            self.regex.move(right, (self.height() - self.regex.height()) // 2)
            right -= 4
        self.position.adjustSize()
        self.position.move(right - self.position.width() - 4, (self.height() - self.position.height()) // 2)
        taken = self.width() - self.position.x() if self.position.text() else 36
        self.setTextMargins(2, 0, taken, 0)
        words = self.mode.value  # a first word that is whole says more than a sentence that is cut
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        inside = self.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, self)
        room = inside.width() - taken - BESIDE_TEXT
        fits = self.fontMetrics().horizontalAdvance(words) <= room
        self.setPlaceholderText(words if fits else words.partition(" ")[0])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._ask()

    def event(self, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            self.popup.move_by(1 if key == Qt.Key.Key_Down else -1)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._pause.isActive():
                self._ask()
            if not self._answered:
                self._awaited = True  # the hits of a text typed before are not what is meant
            elif self.popup.isVisible():
                self.popup.run()
            else:
                self.walk_wanted.emit(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        elif key == Qt.Key.Key_Escape:
            self._leave()
        else:
            super().keyPressEvent(event)

    def _leave(self) -> None:
        self._answered, self._awaited = True, False
        self.popup.hide()
        self.clear()
        self.say("")
        self.set_mode(Mode.ALL)
        self.left.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.popup.hide()
        return super().eventFilter(watched, event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        QTimer.singleShot(0, self, self._hide_unless_inside)

    def _hide_unless_inside(self) -> None:
        if not self.hasFocus():
            self.popup.hide()
