"""A pandas frame as a Qt table: typed columns, sorting, filtering, and text that is safe in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QBrush, QColor

from parsers.model import BOOL, I64, units
from parsers.model.late import dataclass
from parsers.model.units import capital
from viewer.appearance import plain_text, theme
from viewer.appearance.widgets import tooltip
from viewer.tables.sizes import Sizes
from viewer.tables.table import RowTable, Summary

if TYPE_CHECKING:
    import pandas as pd

Index = QModelIndex | QPersistentModelIndex
RAW_ROLE = Qt.ItemDataRole.UserRole + 1
NOT_A_NUMBER = "-"
MOMENTS = ("start_ns", "end_ns")  # when, rather than how long
MAX_MEASURED = 200  # rows whose texts decide how wide a column is


class Show(Enum):
    """How the values of a column are written."""

    TEXT = "text"
    FIGURE = "figure"  # a number that is written already
    FAMILY = "family"  # text with the family's colour
    COUNT = "count"
    TIME = "time"  # ns
    SIZE = "size"  # bytes
    RATE = "rate"  # bytes per second
    SHARE = "share"  # fraction of one, with a bar
    PERCENT = "percent"  # 0 to 100
    NUMBER = "number"
    PARTS = "parts"  # ns, as a bar of its column's ``parts``
    SPREAD = "spread"  # a ratio, as a histogram of the counts in the column that ``parts`` names


TEXTS = frozenset({Show.TEXT, Show.FAMILY, Show.FIGURE})
LEFT = frozenset({Show.TEXT, Show.FAMILY})
BARS = frozenset({Show.SHARE, Show.PARTS, Show.SPREAD})


@dataclass(frozen=True, slots=True)
class Column:
    """One shown column of the frame; ``hint`` explains it in the header's tooltip."""

    key: str
    title: str
    show: Show = Show.TEXT
    hint: str = ""
    width: int = 0  # px of a bar, where there is room; 0: by kind
    stretch: bool = False  # takes its part of the room that is left; else the first column with text does
    minor: bool = False  # hidden where there is not room for all columns
    whole: str = ""  # key of the column with the whole text, for the tooltip, the filter and exports
    short: str = ""  # the title where there is not room for all of it
    sparse: bool = False  # hidden while no row says anything in it: all texts are empty, or all numbers 0
    editable: bool = False  # typed into where it stands
    order: str = ""  # key of the numbers by which written figures are sorted
    parts: tuple[str, ...] = ()  # keys of the columns that a bar is made of, from left to right
    hues: Callable[[theme.Theme], Sequence[QColor]] | None = None  # the colours of these parts
    tone: str = ""  # key of a column of numbers: below 0 the text is green, above 0 red, else grey


_SIZES = {Show.SIZE: "", Show.RATE: "/s"}
OF_UNIT = {"ns": Show.TIME, "B": Show.SIZE, "B/s": Show.RATE, "share": Show.SHARE}


def described(
    table: type[RowTable | Summary], name: str, show: Show | None = None, title: str = "", **how: Any
) -> Column:
    """A column as the schema of its table describes it; ``how`` are the other fields of a ``Column``."""
    of = next(each for each in table.columns if each.name == name)
    hint = capital(of.about)
    return Column(of.name, title or of.heading, show or OF_UNIT.get(of.unit, Show.TEXT), hint, **how)


def written(value: Any, show: Show) -> str:
    """A value as the window writes it."""
    if show in TEXTS:
        return str(value)
    if value is None or value != value:
        return NOT_A_NUMBER
    match show:
        case Show.COUNT:
            return f"{int(value):,}"
        case Show.TIME | Show.PARTS:
            return units.duration(float(value))
        case Show.SIZE:
            return units.size(float(value))
        case Show.RATE:
            return units.rate(float(value)) if value else NOT_A_NUMBER
        case Show.SHARE:
            return units.percent(float(value))
        case Show.PERCENT:
            return units.percent(float(value) / 100)
        case _:
            return units.three_digits(float(value))


def _largest(shares: Any) -> float:
    known = shares.astype(float)
    return float(np.max(known[np.isfinite(known)], initial=1.0))


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str):
        return plain_text.cell(value)
    return value.item() if isinstance(value, np.generic) else value


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV with exact values; texts that look like formulas are quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([safe_cell(title) for title in titles])
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


class TableModel(QAbstractTableModel):
    """Shows the columns of a frame; sorting and filtering only renumber rows, the frame is never copied."""

    edited = Signal(int, str, str)  # row of the frame, key of the column, what was typed

    def __init__(self, columns: Sequence[Column], parent: Any = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.frame: pd.DataFrame | None = None
        self._values: list[Any] = []
        self._whole: list[Any] = []
        self._sizes: dict[Show, Sizes] = {}  # how those of all columns are written: beside each other, too
        self._order: list[Any] = []
        self._full: list[float] = []
        self._rows = np.empty(0, np.int64)
        self._filter = ""
        self._sort: tuple[int, Qt.SortOrder] | None = None
        self._short_titles = False

    def set_frame(self, frame: pd.DataFrame) -> None:
        self.beginResetModel()
        self.frame = frame
        self._values = [frame[column.key].to_numpy() for column in self.columns]
        self._whole = [frame[column.whole or column.key].to_numpy() for column in self.columns]
        self._order = [frame[column.order or column.key].to_numpy() for column in self.columns]
        shown = [(values, column.show) for values, column in zip(self._values, self.columns, strict=True)]
        self._sizes = {
            show: Sizes(np.concatenate(mine).astype(float), _SIZES[show])
            for show in _SIZES
            if (mine := [values for values, each in shown if each is show])
        }
        self._full = [_largest(values) if show in BARS else 1.0 for values, show in shown]
        self._arrange()
        self.endResetModel()

    def _written(self, column: int, value: Any) -> str:
        show = self.columns[column].show
        told, sizes = written(value, show), self._sizes.get(show)
        return told if sizes is None or told == NOT_A_NUMBER else sizes.written(float(value))

    def widest_texts(self, column: int) -> list[str]:
        """What the largest, the smallest and the first of a column's values look like."""
        values = self._values[column] if self._values else ()
        if not len(values):
            return []
        chosen = list(values[:MAX_MEASURED])
        if self.columns[column].show not in TEXTS:
            known = np.asarray(values, float)
            known = known[np.isfinite(known)]
            chosen += [known.max(), known.min()] if len(known) else []
        return [self._written(column, value) for value in chosen]

    def full(self, column: int) -> float:
        """The share that fills a bar: one, or the largest of the column."""
        return self._full[column]

    def silent_columns(self) -> set[int]:
        """The sparse columns in which no row of the frame says anything."""
        return {
            index
            for index, (values, column) in enumerate(zip(self._values, self.columns, strict=False))
            if column.sparse and not any(str(value) if column.show in TEXTS else value for value in values)
        }

    def use_short_titles(self, short: bool) -> None:
        """Whether columns are called by their short titles."""
        if short != self._short_titles:
            self._short_titles = short
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def set_filter(self, text: str) -> None:
        """Keep rows whose texts contain every word, in any case; ">1ms" and "<20us" bound the first column of lengths.

        "rank:3" keeps the rows that say 3 in the column called Rank.
        """
        wanted = text.strip().lower()
        if wanted == self._filter:  # a reset would take the selection, and what is being typed into a row
            return
        self.beginResetModel()
        self._filter = wanted
        self._arrange()
        self.endResetModel()

    def _arrange(self) -> None:
        count = 0 if self.frame is None else len(self.frame)
        rows = np.arange(count, dtype=np.int64)
        texts = [index for index, column in enumerate(self.columns) if column.show in TEXTS]
        if self._filter and count:
            for word in self._filter.split():
                if (bounded := self._bounded(word)) is not None:
                    rows = rows[bounded[rows]]
                elif (field := self._field(word)) is not None:
                    said = (self._written(field, each).lower() for each in self._values[field][rows])
                    wanted = word.partition(":")[2]
                    rows = rows[np.fromiter((each == wanted for each in said), bool, len(rows))]
                else:
                    rows = rows[self._containing(word, texts, rows)]
        if self._sort is not None and len(rows):
            column, order = self._sort
            values = self._order[column][rows]
            if self.columns[column].show in TEXTS and not self.columns[column].order:
                values = np.array([str(value).lower() for value in values])
            else:
                values = np.nan_to_num(values.astype(float), nan=-np.inf)
            by_value = np.argsort(values, kind="stable")
            rows = rows[by_value if order == Qt.SortOrder.AscendingOrder else by_value[::-1]]
        self._rows = rows

    def _field(self, word: str) -> int | None:
        """The column that a word such as "rank:3" names; None for any other word."""
        name, colon, value = word.partition(":")
        titles = [column.title.lower() for column in self.columns]
        return titles.index(name) if colon and value and name in titles else None

    def _containing(self, word: str, texts: Sequence[int], rows: I64) -> BOOL:
        keep = np.zeros(len(rows), bool)
        for index in texts:
            found = (word in str(each).lower() for each in self._whole[index][rows])
            keep |= np.fromiter(found, bool, len(rows))
        return keep

    def _bounded(self, word: str) -> BOOL | None:
        """Which rows a word such as ">1ms" keeps; None for any other word, and where no column holds lengths."""
        times = [
            index
            for index, column in enumerate(self.columns)
            if column.show is Show.TIME and not column.key.endswith(MOMENTS)
        ]
        bound = units.parse_duration(word[1:]) if word[:1] in ("<", ">") else None
        if bound is None or not times:
            return None
        values = self._values[times[0]].astype(float)
        return np.asarray(values > bound if word[0] == ">" else values < bound)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.columns)

    def frame_row(self, row: int) -> int:
        """The row of the frame that row ``row`` of the view shows."""
        return int(self._rows[row])

    def frame_rows(self) -> I64:
        """The rows of the frame that the filter leaves, in the order in which they are shown."""
        return self._rows

    def view_row(self, frame_row: int) -> int:
        """The row of the view that shows a row of the frame; -1 when it is filtered out."""
        found = np.flatnonzero(self._rows == frame_row)
        return int(found[0]) if len(found) else -1

    def shown(self, key: str) -> Any:
        """A column of the frame, of the rows that the filter leaves."""
        assert self.frame is not None
        return self.frame[key].to_numpy()[self._rows]

    def value(self, row: int, key: str) -> Any:
        """A cell of the frame, by the view's row and the frame's column."""
        assert self.frame is not None
        return self.frame[key].iloc[self.frame_row(row)]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column = self.columns[index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if column.show in LEFT else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.EditRole:
            return str(self._whole[index.column()][self._rows[index.row()]])
        if role == Qt.ItemDataRole.FontRole and column.show not in LEFT:
            return theme.font(tabular=True)
        if role == Qt.ItemDataRole.ForegroundRole and column.tone:
            return QBrush(self._tone(index.row(), column.tone))
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, RAW_ROLE):
            return None
        if role == Qt.ItemDataRole.ToolTipRole:
            whole = self._whole[index.column()][self._rows[index.row()]]
            if column.show is Show.SIZE and whole == whole:
                return tooltip(f"{int(whole):,} B")
            return tooltip(str(whole)) if column.show in TEXTS else None
        value = self._values[index.column()][self._rows[index.row()]]
        if role == RAW_ROLE:
            return value
        return self._written(index.column(), value)

    def _tone(self, row: int, key: str) -> QColor:
        value, colors = float(self.value(row, key)), theme.current()
        return colors.good if value < 0 else colors.error if value > 0 else colors.text_secondary

    def flags(self, index: Index) -> Qt.ItemFlag:
        editable = index.isValid() and self.columns[index.column()].editable
        return super().flags(index) | (Qt.ItemFlag.ItemIsEditable if editable else Qt.ItemFlag.NoItemFlags)

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Tell what was typed; the frame stays, whoever owns it shows another one."""
        if role == Qt.ItemDataRole.EditRole:
            self.edited.emit(self.frame_row(index.row()), self.columns[index.column()].key, str(value))
        return False

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.short if column.short and self._short_titles else column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(column.hint) if column.hint else None
        if role == Qt.ItemDataRole.InitialSortOrderRole:  # of numbers, the large ones are asked for
            return (
                Qt.SortOrder.AscendingOrder if column.show in LEFT else Qt.SortOrder.DescendingOrder
            ).value
        if role == Qt.ItemDataRole.TextAlignmentRole:
            left = column.show in LEFT or column.show in BARS
            return (
                Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
            ) | Qt.AlignmentFlag.AlignVCenter
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.beginResetModel()
        self._sort = (column, order) if 0 <= column < len(self.columns) else None
        self._arrange()
        self.endResetModel()

    def as_text(self, rows: Sequence[int]) -> str:
        """Rows of the view as tab-separated text, written as shown."""
        lines = ["\t".join(column.title for column in self.columns)]
        for row in rows:
            cells = (
                self._written(index, values[self._rows[row]])
                for index, (values, _) in enumerate(self._cells())
            )
            lines.append("\t".join(str(safe_cell(" ".join(cell.split()))) for cell in cells))
        return "\n".join(lines)

    def as_csv(self, rows: Sequence[int] | None = None) -> str:
        """Rows of the view as CSV with exact values; all shown rows when none are named."""
        chosen = range(len(self._rows)) if rows is None else rows
        titles = [column.title + _UNIT.get(column.show, "") for column in self.columns]
        return csv_text(titles, ([values[self._rows[row]] for values, _ in self._cells()] for row in chosen))

    def _cells(self) -> Iterable[tuple[Any, Column]]:
        return zip(self._whole, self.columns, strict=True)


_UNIT = {Show.TIME: " (ns)", Show.SIZE: " (bytes)", Show.RATE: " (bytes/s)", Show.PERCENT: " (%)"}
