"""The answer to a question: a table whose rows fly, sums over all rows, or one sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QStackedLayout, QWidget

from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, Label, fill, horizontal, vertical
from viewer.panels.tables.table_model import OF_UNIT, Column, Show, written
from viewer.panels.tables.table_view import TableView

if TYPE_CHECKING:
    import pandas as pd

    from viewer.query.result import ColumnSums, Result

_ENDS = {"ns": "_ns", "B": "_bytes", "B/s": "_bytes_per_s", "share": "_share"}
FOOT_MARGINS = 30  # px around and between the two texts at the bottom
SPREAD = frozenset({Show.TIME, Show.SIZE})  # of these, the median and p99 are told, too


class Answer(QWidget):
    """``chosen`` hands over a row of the answer, ``keep_wanted`` is the key O; ``replaced``: the table is new."""

    chosen = Signal(int)
    keep_wanted = Signal()
    replaced = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table: TableView | None = None
        self._result: Result | None = None  # None while no answer is shown
        self._pages = QStackedLayout()
        column = vertical(self, NO_MARGINS, 0)
        column.addLayout(self._pages, 1)  # first: it shows what is added, which then needs a parent
        self._text = Label("", "secondary", wrap=True)
        self._text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._text.setContentsMargins(20, 8, 20, 8)
        self._pages.addWidget(self._text)
        self.left, self.right = ElidedLabel("", pixels=12), Label("", "secondary", pixels=12)
        bottom = fill(horizontal(margins=(12, 4, 10, 5), spacing=8), (self.left, 1), self.right)
        column.addLayout(bottom)

    def say(self, text: str) -> None:
        """One sentence in place of a table."""
        self._text.setText(text)
        self._pages.setCurrentWidget(self._text)
        self.left.setText("")
        self.right.setText("")

    @property
    def said(self) -> str:
        """The sentence that stands in place of a table; empty while there is one."""
        return self._text.text() if self._pages.currentWidget() is self._text else ""

    def show_result(self, result: Result) -> None:
        columns, frame = shown_columns(result.frame)
        self._result = None  # while its table is filled
        self._put(columns, frame)
        self._result = result
        self._follow_filter()
        self.right.setText("↑ ↓ go to the row   O keeps its lane")
        self._fit_foot()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_foot()

    def _fit_foot(self) -> None:
        """Which keys help is said where the sums leave room for it."""
        wanted = self.left.sizeHint().width() + self.right.sizeHint().width() + FOOT_MARGINS
        self.right.setVisible(wanted <= self.width())

    def _follow_filter(self) -> None:
        """How many rows there are and what adds up: of those that a filter leaves, else of all, shown or not."""
        from viewer.query.result import adds_up, sums_of

        rows, result = self.table.rows if self.table is not None else None, self._result
        if rows is None or result is None:
            return
        count, shown = rows.rowCount(), len(result.frame)
        if count == shown:
            more = f", the first {shown:,} shown" if result.cut else ""
            rows_told = f"{result.rows:,} row{'' if result.rows == 1 else 's'}"
            told, sums = f"{rows_told} in {1000 * result.seconds:.0f} ms{more}", result.sums
        else:
            of = f"the first {shown:,}" if result.cut else f"{shown:,}"
            told, sums = f"{count:,} of {of} rows", sums_of(result.frame.iloc[rows.frame_rows()])
        said = [_summed(str(name), each, rows.columns) for name, each in sums.items() if adds_up(str(name))]
        self.left.setText(" · ".join([told, *said]))
        self._fit_foot()

    def show_frame(self, columns: tuple[Column, ...], frame: pd.DataFrame, text: str) -> None:
        """A table that is no answer, such as the description of the tables."""
        self._result = None
        self._put(columns, frame)
        self.left.setText(text)
        self.right.setText("")

    def _put(self, columns: tuple[Column, ...], frame: pd.DataFrame) -> None:
        former = self.table
        self.table = TableView(columns, "Answer")
        self.table.chosen.connect(self.chosen)
        self.table.rows.modelReset.connect(self._follow_filter)
        self.table.installEventFilter(self)
        self._pages.addWidget(self.table)
        self.table.set_frame(frame)
        self._pages.setCurrentWidget(self.table)
        if former is not None:
            self._pages.removeWidget(former)
            former.deleteLater()
        self.replaced.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if (
            isinstance(event, QKeyEvent)
            and event.type() is QEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_O
            and not event.modifiers()
        ):
            self.keep_wanted.emit()
            return True
        return super().eventFilter(watched, event)


def _summed(name: str, each: ColumnSums, columns: Sequence[Column]) -> str:
    """ "gpu_idle_ns: sum 44.5 ms, median 61.2 us, p99 77 us"; a count has its sum alone."""
    show = next(column.show for column in columns if column.key.partition(":")[2] == name)
    if show not in SPREAD:
        return f"{name}: sum {written(each.total, show)}"
    total, median, p99 = (written(value, show) for value in (each.total, each.median, each.p99))
    return f"{name}: sum {total}, median {median}, p99 {p99}"


def shown_columns(frame: pd.DataFrame) -> tuple[tuple[Column, ...], pd.DataFrame]:
    """How the columns of an answer are shown, by the end of their names; names that occur twice get a number."""
    import pandas as pd

    from viewer.tables.table import Column as Named

    columns: list[Column] = []
    parts: dict[str, Any] = {}
    for index, name in enumerate(map(str, frame.columns)):
        values, key = frame.iloc[:, index], f"{index}:{name}"
        unit = Named(name, "").unit
        numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        if not numeric:
            parts[key] = values.astype(object).where(values.notna(), "")
            columns.append(Column(key, name, stretch=True))
        elif name.endswith("percent"):
            columns.append(Column(key, name, Show.PERCENT))
        elif unit in OF_UNIT:
            columns.append(Column(key, name.removesuffix(_ENDS[unit]), OF_UNIT[unit], name))
        else:
            whole = pd.api.types.is_integer_dtype(values)
            columns.append(Column(key, name, Show.COUNT if whole else Show.NUMBER, minor=name == "event"))
        if numeric:  # what is missing is no number
            parts[key] = values.to_numpy(np.float64, na_value=np.nan) if values.hasnans else values.to_numpy()
    return tuple(columns), pd.DataFrame(parts, copy=False)
