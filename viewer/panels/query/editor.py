"""The editor of questions: colours, completion with meanings, the word that is wrong underlined."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QAbstractItemView, QCompleter, QPlainTextEdit, QTextEdit, QWidget

from parsers.model import Trace
from parsers.model.late import regex
from viewer.appearance import theme
from viewer.appearance.key_names import key_names
from viewer.query.completion import KEYWORDS, candidates, table_names

POPUP_WIDTH, NAME_LETTERS = 640, 20  # pixels, letters of most names
_TOKEN = regex(r"--[^\n]*|'[^'\n]*'?|\b\d+(?:\.\d+)?\b|\b[A-Za-z_]\w*\b")
_WORDS = frozenset(word.lower() for keyword in KEYWORDS for word in keyword.split())


class Colours(QSyntaxHighlighter):
    """Words of SQL, tables, texts, numbers and remarks."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self.tables: frozenset[str] = frozenset()

    def highlightBlock(self, text: str) -> None:
        colors = theme.current()
        for found in _TOKEN.finditer(text):
            word = found[0]
            if word.startswith("--"):
                color = colors.text_faint
            elif word.startswith("'"):
                color = colors.good
            elif word[0].isdigit():
                color = colors.warning
            elif word.lower() in _WORDS:
                color = colors.named(2)
            elif word.lower() in self.tables:
                color = colors.accent
            else:
                continue
            self.setFormat(found.start(), len(word), QColor(color))


class _Numbers(QWidget):
    """The numbers of the lines."""

    def __init__(self, editor: Editor) -> None:
        super().__init__(editor)
        self._editor = editor

    def sizeHint(self) -> QSize:
        return QSize(self._editor.numbers_width, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._editor.paint_numbers(self, event)


class Editor(QPlainTextEdit):
    """``run_wanted`` and ``stop_wanted`` are Ctrl+Enter and Esc; ``help_wanted`` is F1."""

    run_wanted = Signal()
    stop_wanted = Signal()
    help_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.running = False
        self.trace: Trace | None = None
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(13)
        font.setStyleHint(QFont.StyleHint.Monospace)
        self.setFont(font)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self.setAccessibleName("Question in SQL")
        self.setPlaceholderText(
            key_names("SELECT ... FROM kernels\nCtrl+Enter runs, F1 describes the tables")
        )
        self.setTabChangesFocus(True)
        self._colours = Colours(self.document())
        self._numbers = _Numbers(self)
        self.blockCountChanged.connect(lambda _: self._place_numbers())
        self.updateRequest.connect(self._scroll_numbers)
        self.textChanged.connect(self.forget_mistake)
        self._place_numbers()
        self._begin = 0
        self._completer: QCompleter | None = None

    def know(self, trace: Trace | None) -> None:
        """The recording whose names can be completed; tables are coloured from now on."""
        self.trace = trace
        if trace is not None and not self._colours.tables:
            self._colours.tables = frozenset(table_names())
            self._colours.rehighlight()

    @property
    def sql(self) -> str:
        return self.toPlainText()

    def put(self, sql: str) -> None:
        """Another question in place of what is typed, which Ctrl+Z brings back."""
        cursor = self.textCursor()
        cursor.beginEditBlock()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(sql)
        cursor.endEditBlock()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def mark_mistake(self, place: int, length: int) -> None:
        cursor = QTextCursor(self.document())
        cursor.setPosition(place)
        cursor.setPosition(min(place + length, len(self.sql)), QTextCursor.MoveMode.KeepAnchor)
        wrong = QTextEdit.ExtraSelection()
        shape = QTextCharFormat()
        shape.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        shape.setUnderlineColor(theme.current().error)
        wrong.cursor, wrong.format = cursor, shape
        self.setExtraSelections([wrong])

    def forget_mistake(self) -> None:
        if self.extraSelections():
            self.setExtraSelections([])

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.ShortcutOverride:
            own = event.key() == Qt.Key.Key_F1 or self._runs(event)
            if own or (event.key() == Qt.Key.Key_Escape and (self.running or self._is_offering())):
                event.accept()
                return True
        return super().event(event)

    @staticmethod
    def _runs(event: QKeyEvent) -> bool:
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        return control and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, popup = event.key(), self._is_offering()
        if popup and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab, Qt.Key.Key_Escape):
            event.ignore()  # for the list of completions
        elif self._runs(event):
            self.run_wanted.emit()
        elif key == Qt.Key.Key_Escape and self.running:
            self.stop_wanted.emit()
        elif key == Qt.Key.Key_F1:
            self.help_wanted.emit()
        else:
            asked = key == Qt.Key.Key_Space and bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            if not asked:
                super().keyPressEvent(event)
            if asked or (event.text().strip() and event.text().isprintable()) or (popup and event.text()):
                self._offer()

    @property
    def popup(self) -> QAbstractItemView | None:
        """The list of completions; None until the first one was offered."""
        return self._completer.popup() if self._completer is not None else None

    def _is_offering(self) -> bool:
        popup = self.popup
        return popup is not None and popup.isVisible()

    def _made_completer(self) -> QCompleter:
        """Made when it is needed: its list is a window, and a new window takes the focus away from the others."""
        if self._completer is None:
            self._completer = QCompleter(self)
            self._completer.setWidget(self)
            self._completer.setModel(QStandardItemModel(self._completer))
            self._completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
            self._completer.activated[QModelIndex].connect(self._complete)  # type: ignore[index]
            if self.popup is not None:
                self.popup.setFont(self.font())
        return self._completer

    def _offer(self) -> None:
        self._begin, found = candidates(self.sql, self.textCursor().position(), self.trace)
        completer = self._made_completer()
        model, popup = completer.model(), completer.popup()
        assert isinstance(model, QStandardItemModel)
        assert popup is not None
        model.clear()
        for each in found:
            item = QStandardItem(f"{each.text:<{NAME_LETTERS}}  {each.sort:<8}  {each.about}".rstrip())
            item.setData(each.text, Qt.ItemDataRole.UserRole)
            model.appendRow(item)
        if not found:
            popup.hide()
            return
        popup.setCurrentIndex(completer.completionModel().index(0, 0))
        place = self.cursorRect()
        completer.complete(QRect(place.x() + self.numbers_width, place.y(), POPUP_WIDTH, place.height()))

    def _complete(self, index: QModelIndex) -> None:
        cursor = self.textCursor()
        end = cursor.position()
        cursor.setPosition(self._begin)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(str(index.data(Qt.ItemDataRole.UserRole)))
        self.setTextCursor(cursor)

    @property
    def numbers_width(self) -> int:
        return 16 + self.fontMetrics().horizontalAdvance("9") * max(len(str(self.blockCount())), 2)

    def _place_numbers(self) -> None:
        self.setViewportMargins(self.numbers_width, 0, 0, 0)
        inside = self.contentsRect()
        self._numbers.setGeometry(QRect(inside.left(), inside.top(), self.numbers_width, inside.height()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_numbers()

    def _scroll_numbers(self, area: QRect, by: int) -> None:
        if by:
            self._numbers.scroll(0, by)
        else:
            self._numbers.update(0, area.y(), self._numbers.width(), area.height())

    def paint_numbers(self, numbers: QWidget, event: QPaintEvent) -> None:
        """Draw the numbers of the lines that can be seen."""
        colors = theme.current()
        painter = QPainter(numbers)
        painter.fillRect(event.rect(), colors.strip)
        painter.setFont(self.font())
        painter.setPen(colors.text_faint)
        block = self.firstVisibleBlock()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        while block.isValid() and top <= event.rect().bottom():
            height = self.blockBoundingRect(block).height()
            room = QRect(0, round(top), numbers.width() - 8, round(height))
            painter.drawText(room, Qt.AlignmentFlag.AlignRight, str(block.blockNumber() + 1))
            block, top = block.next(), top + height
