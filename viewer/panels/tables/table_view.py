"""A table with everything a table of this program can do: sort, filter, copy, export, bars, family swatches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QItemSelectionModel, QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QFocusEvent,
    QFontMetrics,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHeaderView,
    QMenu,
    QMessageBox,
    QStyle,
    QStyleOptionViewItem,
    QTableView,
)

from viewer.appearance import theme
from viewer.appearance.painted_chart import RowDelegate
from viewer.appearance.widgets import elided_inside
from viewer.panels.tables.table_model import BARS, LEFT, RAW_ROLE, TEXTS, Column, Index, Show, TableModel
from viewer.panels.tables.widths import NOTHING, Wish, shared_width
from viewer.user_data.storage import is_written

if TYPE_CHECKING:
    import pandas as pd

ROW_HEIGHT = 24
CELL_PADDING = 13  # pixels left and right of a text: what the style leaves, and a little more
TITLE_PADDING, ARROW_PADDING = 18, 30  # pixels beside a title, and with the arrow that tells the order
TIGHT_NAME_WIDTH, EASY_NAME_WIDTH = 180, 250  # pixels: both its ends, or most of a name
TIGHT_KIND_WIDTH, FAIR_KIND_WIDTH = 44, 132  # pixels: its colour alone, or all of what most are called
MIN_WORDS, FAIR_WORDS, MAX_WORDS = 64, 180, 420  # pixels of a text that is not the name
ONE_WORD = 120  # pixels: what is no longer gives way after the name
MIN_KIND_WIDTH = 40  # pixels: of a shorter word nobody could guess the rest
SWATCH_WIDTH = 8
BAR_WIDTH, MIN_BAR, MIN_PARTS = 104, 20, 150
MIN_SECTION = 24
MAX_NAME, MAX_SPREAD = 480, 320  # px, however wide the table is
_BAR_WIDTHS = {Show.SHARE: 178, Show.PARTS: 240, Show.SPREAD: 160}
_WIDTH = {Show.COUNT: 70, Show.TIME: 84, Show.SIZE: 92, Show.RATE: 96, Show.PERCENT: 76, Show.NUMBER: 84}


class BarDelegate(RowDelegate):
    """Paints share bars and the colour of a kernel family."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        model = index.model()
        if not isinstance(model, TableModel):
            super().paint(painter, option, index)
            return
        self.tint(option, index)
        show = model.columns[index.column()].show
        if show is Show.SHARE:
            self._share(painter, option, index)
        elif show is Show.FAMILY:
            self._family(painter, option, index)
        elif show is Show.PARTS:
            self._parts(painter, option, index)
        elif show is Show.SPREAD:
            self._spread(painter, option, index)
        else:
            super().paint(painter, option, index)

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.text = elided_inside(
            option.text, QFontMetricsF(option.font), option.rect.width() - 2 * CELL_PADDING
        )

    def _ground(self, painter: QPainter, option: QStyleOptionViewItem) -> QRect:
        widget = option.widget
        widget.style().drawPrimitive(QStyle.PrimitiveElement.PE_PanelItemViewItem, option, painter, widget)
        rect: QRect = option.rect
        return rect

    def _share(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        model = index.model()
        assert isinstance(model, TableModel)
        rect, colors = self._ground(painter, option), theme.current()
        share = min(max(float(index.data(RAW_ROLE)) / model.full(index.column()), 0.0), 1.0)
        table = option.widget
        assert isinstance(table, TableView)
        width = min(BAR_WIDTH, rect.width() - table.room_of_text(index.column()) - 20)
        groove = QRectF(rect.x() + 8, rect.center().y() - 3, max(width, 0), 7)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.strip)
        painter.drawRoundedRect(groove, 3, 3)
        painter.setBrush(self._row_color(index))
        if share > 0:
            painter.drawRoundedRect(QRectF(groove.x(), groove.y(), max(groove.width() * share, 3.0), 7), 3, 3)
        painter.setPen(colors.text_secondary)
        painter.setFont(theme.font(tabular=True))
        where = QRect(QPoint(round(groove.right()) + 4, rect.y()), rect.bottomRight()).adjusted(0, -1, -8, -1)
        painter.drawText(
            where, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, str(index.data())
        )
        painter.restore()

    def _parts(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A bar as long as its row's value beside the largest one."""
        model, rect = index.model(), self._ground(painter, option)
        assert isinstance(model, TableModel)
        column = model.columns[index.column()]
        colors = column.hues(theme.current()) if column.hues is not None else ()
        scale = (rect.width() - 16) / max(model.full(index.column()), 1.0)
        left = rect.x() + 8.0
        for key, color in zip(column.parts, colors, strict=True):
            width = float(model.value(index.row(), key) or 0.0) * scale
            painter.fillRect(QRectF(left, rect.center().y() - 4, width, 9), color)
            left += width

    def _spread(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A column for each count, as high as it is beside the largest of the row."""
        model, rect = index.model(), self._ground(painter, option)
        assert isinstance(model, TableModel)
        counts = model.value(index.row(), model.columns[index.column()].parts[0])
        width = min(rect.width() - 16, MAX_SPREAD) / max(len(counts), 1)
        bottom, most, color = rect.bottom() - 4.0, max(*counts, 1), self._row_color(index)
        painter.fillRect(QRectF(rect.x() + 8, bottom, width * len(counts), 1), theme.current().line_strong)
        for place, count in enumerate(counts):
            if count:
                height = max((rect.height() - 8) * count / most, 1.0)
                left = rect.x() + 8 + place * width
                painter.fillRect(QRectF(left, bottom - height, max(width - 1, 1), height), color)

    def _row_color(self, index: Index) -> object:
        model = index.model()
        assert isinstance(model, TableModel)
        for number, column in enumerate(model.columns):
            if column.show is Show.FAMILY:
                return theme.current().family(str(index.sibling(index.row(), number).data()))
        return theme.current().accent

    def _family(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        rect, colors = self._ground(painter, option), theme.current()
        text = str(index.data())
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.family(text))
        painter.drawRoundedRect(QRectF(rect.x() + 8, rect.center().y() - 4, 9, 9), 2, 2)
        painter.setPen(colors.text_secondary)
        painter.setFont(theme.font())
        room = rect.adjusted(24, 0, -4, 0)
        if room.width() >= MIN_KIND_WIDTH:
            shown = QFontMetrics(painter.font()).elidedText(text, Qt.TextElideMode.ElideRight, room.width())
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
        painter.restore()


class TableView(QTableView):
    """A sortable table; ``chosen`` hands over the frame's row that the user clicked or walked to."""

    chosen = Signal(int)
    explain_wanted = Signal(int)  # the frame's row whose figures are to be explained
    typed = Signal(str)  # a character that is no shortcut, where a filter takes it

    def __init__(self, columns: Sequence[Column], name: str) -> None:
        super().__init__()
        self.rows = TableModel(columns, self)
        self._name = name
        self.explains = False  # whether somebody knows what its figures are the sums of
        self.is_filtered = False  # whether what is typed goes into a filter
        self._arriving = False  # the focus comes, and Qt makes some row the current one
        self.setModel(self.rows)
        self.setItemDelegate(BarDelegate(self))
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setSortingEnabled(True)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        header.setSortIndicatorClearable(True)
        header.setHighlightSections(False)
        header.setMinimumSectionSize(MIN_SECTION)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self._chosen_columns: dict[int, bool] = {}  # shown or not, as somebody decided
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._choose_columns)
        self._given = [header.defaultSectionSize()] * len(self.rows.columns)
        self._taken = [0] * len(self.rows.columns)
        self._by_hand: dict[int, int] = {}
        self._silent: set[int] = set()
        self._growing = self._growing_columns()
        self._share_width()
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        for text, keys, slot in (
            ("Copy", QKeySequence(QKeySequence.StandardKey.Copy), self.copy_text),
            ("Copy as CSV", QKeySequence("Ctrl+Shift+C"), self.copy_csv),
        ):
            action = QAction(text, self)
            action.setShortcut(keys)
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            action.triggered.connect(slot)
            self.addAction(action)

    def set_frame(self, frame: pd.DataFrame) -> None:
        first = self.rows.frame is None
        self.rows.set_frame(frame)
        self._measure()
        self._share_width()
        if first:
            self.scrollToTop()
            self.horizontalScrollBar().setValue(0)

    def set_filter(self, text: str) -> None:
        self.rows.set_filter(text)

    def selectRow(self, row: int) -> None:
        """Select this row alone, whatever keys are held: the program selects on Shift+N and Shift+Tab too."""
        flags = QItemSelectionModel.SelectionFlag
        index = self.rows.index(row, 0)
        self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)

    def select_frame_row(self, frame_row: int) -> None:
        """Mark a row of the frame without telling anybody."""
        row = self.rows.view_row(frame_row)
        if row >= 0 and self.currentIndex().row() == row:
            return
        model = self.selectionModel()
        blocked = model.blockSignals(True)
        if row >= 0:
            self.selectRow(row)
            self.scrollTo(self.rows.index(row, 0))
        else:
            self.clearSelection()
        model.blockSignals(blocked)
        self.viewport().update()

    def select_first(self, key: str, value: object) -> None:
        """Mark the first row of the frame with a value in a column, or none where no row has it."""
        frame = self.rows.frame
        if frame is not None and len(frame):
            found = (frame[key] == value).to_numpy().nonzero()[0]
            self.select_frame_row(int(found[0]) if len(found) else -1)

    def selected_rows(self) -> list[int]:
        """Selected rows of the view, all rows when none is selected."""
        found = sorted(index.row() for index in self.selectionModel().selectedRows())
        return found or list(range(self.rows.rowCount()))

    def copy_text(self) -> None:
        QGuiApplication.clipboard().setText(self.rows.as_text(self.selected_rows()))

    def copy_csv(self) -> None:
        QGuiApplication.clipboard().setText(self.rows.as_csv(self.selected_rows()))

    def export_csv(self) -> None:
        """Ask for a file and write every shown row into it."""
        name, _ = QFileDialog.getSaveFileName(
            self, "Export as CSV", f"{self._name.lower()}.csv", "CSV (*.csv)"
        )
        if name:
            is_written(Path(name), self.rows.as_csv().encode("utf-8", "replace"), self._say)

    def _say(self, problem: str) -> None:
        box = QMessageBox(QMessageBox.Icon.Warning, "Export as CSV", problem, parent=self)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText("Choose another location.")
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """With Tab one only arrives: a row is marked, but chosen by nothing less than a key or a click."""
        self._arriving = True
        super().focusInEvent(event)
        current = self.currentIndex()
        by_tab = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        if by_tab and current.isValid() and not self.selectionModel().hasSelection():
            self.selectRow(current.row())
        self._arriving = False

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click on the current row chooses it again: meanwhile something else may be shown."""
        before = self.currentIndex().row()
        super().mousePressEvent(event)
        again = self.indexAt(event.position().toPoint()).row() == before >= 0
        if again and event.button() is Qt.MouseButton.LeftButton and not event.modifiers():
            self.chosen.emit(self.rows.frame_row(before))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """A click goes to a row, a second one on a figure says what it is the sum of."""
        super().mouseDoubleClickEvent(event)
        index = self.indexAt(event.position().toPoint())
        if index.isValid() and self.rows.columns[index.column()].show not in LEFT:
            self._explain(index)

    def keyboardSearch(self, search: str) -> None:
        """What is typed narrows the table down, where there is a filter, rather than jumping to a row."""
        if self.is_filtered and search.isprintable():
            self.typed.emit(search)
        else:
            super().keyboardSearch(search)

    def _explain(self, index: Index) -> None:
        if self.explains and index.isValid():
            self.explain_wanted.emit(self.rows.frame_row(index.row()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_text()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.chosen.emit(self.rows.frame_row(self.currentIndex().row()))
        else:
            super().keyPressEvent(event)

    def _growing_columns(self) -> frozenset[int]:
        """Those that take what is left: the ones that say so, else the first one with words."""
        columns = self.rows.columns
        stretched = frozenset(index for index, column in enumerate(columns) if column.stretch)
        texts = [index for index, column in enumerate(columns) if column.show is Show.TEXT]
        return stretched or frozenset(texts[:1])

    def _measure(self) -> None:
        """What the values take; done anew for each frame."""
        figures, words = QFontMetricsF(theme.font(tabular=True)), QFontMetricsF(theme.font())
        self._silent = self.rows.silent_columns()
        for index, column in enumerate(self.rows.columns):
            metrics = words if column.show in LEFT else figures
            texts = [metrics.horizontalAdvance(text) for text in self.rows.widest_texts(index)]
            beside = SWATCH_WIDTH if column.show is Show.FAMILY else 0
            self._taken[index] = ceil(max(texts, default=0.0)) + 2 * CELL_PADDING + beside + 1

    def room_of_text(self, index: int) -> int:
        """Pixels of the widest text of a column, without what is left beside it."""
        return self._taken[index] - 2 * CELL_PADDING

    def _wish(self, index: int, short: bool) -> Wish:
        column, grows = self.rows.columns[index], index in self._growing
        if not self._chosen_columns.get(index, index not in self._silent):
            return NOTHING
        if index in self._by_hand and not grows:
            return Wish(chosen := self._by_hand[index], chosen, chosen, chosen)
        words = column.short if short and column.short else column.title
        title = ceil(QFontMetricsF(theme.font()).horizontalAdvance(words))
        least = tight = fair = easy = self._taken[index]
        if column.show in BARS:
            easy = column.width or _BAR_WIDTHS[column.show]
            least = tight = fair = min(least + MIN_BAR, easy) if column.show is Show.SHARE else MIN_PARTS
            grows = grows or column.show is Show.SPREAD
        elif column.show is Show.TEXT:
            easy = min(easy, EASY_NAME_WIDTH if grows else MAX_WORDS)
            fair = easy if grows else min(easy, FAIR_WORDS)
            least = min(MIN_WORDS, easy)
            tight = min(TIGHT_NAME_WIDTH, easy) if grows else easy if easy <= ONE_WORD else least
        elif column.show is Show.FAMILY:
            least = tight = min(TIGHT_KIND_WIDTH, easy)
            fair = min(FAIR_KIND_WIDTH, easy)
        least, tight = (max(title + TITLE_PADDING, each) for each in (least, tight))
        fair = max(title + ARROW_PADDING, fair)
        minor = column.minor and index not in self._chosen_columns
        most = None
        if column.show in LEFT and grows:  # a sentence may be read as a whole, of a name both ends tell it
            most = MAX_NAME if column.whole else max(MAX_NAME, self._taken[index])
        easy = max(easy, fair, _WIDTH.get(column.show, 0))
        whole = min(self._taken[index], most or MAX_NAME) if column.show in LEFT else 0
        spare = column.show is Show.SPREAD and index not in self._chosen_columns
        return Wish(least, tight, fair, easy, minor, grows, most, whole, spare)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()
        current = self.currentIndex()
        lost = self.height() < event.oldSize().height() or not event.oldSize().isValid()
        if lost and current.isValid() and self.visualRect(current).top() < event.oldSize().height():
            self.scrollTo(current)  # what was chosen stays in sight where the room gets less

    def _share_width(self) -> None:
        """All columns side by side; one that the user made wider or narrower stays so."""
        header, room, every = self.horizontalHeader(), self.viewport().width(), range(len(self._given))
        for index, given in enumerate(self._given):
            if header.sectionSize(index) not in (given, 0):
                self._by_hand[index] = header.sectionSize(index)
        wishes = [self._wish(index, short=False) for index in every]
        if short := sum(wish.easy for wish in wishes) > room:
            wishes = [self._wish(index, short=True) for index in every]
        self.rows.use_short_titles(short)
        for index, width in enumerate(shared_width(wishes, room)):
            header.setSectionHidden(index, not width)
            if width:
                header.resizeSection(index, width)
                self._given[index] = header.sectionSize(index)

    def _on_current(self, current: Index, _: Index) -> None:
        if current.isValid() and not self._arriving:
            self.chosen.emit(self.rows.frame_row(current.row()))

    def _choose_columns(self, where: QPoint) -> None:
        """Which columns are shown; that of names always is."""
        menu = QMenu(self)
        for index, column in enumerate(self.rows.columns):
            action = menu.addAction(column.title)
            action.setCheckable(True)
            action.setChecked(not self.horizontalHeader().isSectionHidden(index))
            action.setEnabled(index not in self._growing)
            action.toggled.connect(partial(self._show_column, index))
        menu.popup(self.horizontalHeader().mapToGlobal(where))

    def _show_column(self, index: int, shown: bool) -> None:
        self._chosen_columns[index] = shown
        self._share_width()

    def _menu(self, where: QPoint) -> None:
        menu = QMenu(self)
        menu.addActions(self.actions())
        index = self.indexAt(where)
        if self.explains and index.isValid():
            menu.addAction("Explain these numbers", lambda: self._explain(index))
        menu.addAction("Export as CSV ...", self.export_csv)
        menu.exec(self.viewport().mapToGlobal(where))


__all__ = ["TEXTS", "Column", "Show", "TableView"]
