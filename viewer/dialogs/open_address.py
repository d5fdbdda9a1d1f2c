"""Opens what lies on another machine or in a service: an address, and what is in the folder that it names."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QDialog,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from parsers.files.fetched import is_address, local_copy
from parsers.model import Progress, TraceError
from parsers.model.units import size
from viewer.appearance.widgets import Label, fill, horizontal, push_button, resize_within_screen, vertical
from viewer.desktop.jobs import Jobs
from viewer.remote.addresses import Entry, store_of
from viewer.remote.names import remembered

SIZE = (720, 480)
MIN_RANKS = 3  # files that differ by a number alone, shown as one
_ENTRY = Qt.ItemDataRole.UserRole


class OpenAddress(QDialog):
    """``open_wanted`` carries the path that stands for what was chosen; it is fetched when it is opened."""

    open_wanted = Signal(list)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Open from another machine")
        resize_within_screen(self, *SIZE)
        self._jobs = Jobs(self)
        self.address = QComboBox()
        self.address.setEditable(True)
        self.address.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.address.setAccessibleName("Address")
        hosts = [place.text.removeprefix("ssh:") for place in remembered().values()]
        self.address.addItems([f"ssh://{host}/~" for host in hosts if "/" not in host])
        self.address.setCurrentText("")
        typed = self.address.lineEdit()
        assert typed is not None
        typed.setPlaceholderText("ssh://HOST/path, ssh://HOST/~/path or s3://BUCKET/path")
        self.look = push_button("List", self.list_folder)
        self.look.setDefault(True)
        self.files = QTreeWidget()
        self.files.setAccessibleName("Files there")
        self.files.setHeaderLabels(["Name", "Size", "Changed"])
        self.files.setRootIsDecorated(False)
        self.files.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.files.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.files.header().setStretchLastSection(False)
        self.said = Label("", "secondary", wrap=True)
        self.open_all = push_button(
            "Open the folder", lambda: self._open([self.address.currentText().strip()])
        )
        self.open_button = push_button("Open", self._open_chosen)
        self.cancel = push_button("Cancel", self.reject)
        self._allow()
        self._lay_out()
        self.files.itemActivated.connect(lambda item, _: self._activate(item))
        self.files.itemSelectionChanged.connect(self._allow)
        self.address.currentTextChanged.connect(self._allow)

    def list_folder(self) -> None:
        """Ask what lies at the address; the window stays alive meanwhile."""
        address = self.address.currentText().strip()
        if not is_address(address):
            self.said.setText("An address starts with a protocol, as in ssh://HOST/path.")
            return
        self.files.clear()
        self.said.setText("Asking ...")

        def work(_: Progress) -> list[Entry]:
            with store_of(address) as store:
                return store.entries(address, 1)

        self._jobs.ask("listing", work, self._show, self._failed)

    def reject(self) -> None:
        self._jobs.close(0.2)
        super().reject()

    def _show(self, entries: list[Entry]) -> None:
        below = [entry for entry in entries if entry.name]
        if not below and entries:
            self._open([entries[0].address])
            return
        self.said.setText("" if below else "There is nothing in this folder.")
        for entry in below:
            if entry.is_folder:
                self.files.addTopLevelItem(_item(f"{entry.name}/", [entry]))
        for title, group in grouped([entry for entry in below if not entry.is_folder]):
            self.files.addTopLevelItem(_item(title, group))
        self._allow()

    def _failed(self, error: Exception) -> None:
        said = f"{error.problem} {error.hint}" if isinstance(error, TraceError) else f"It failed: {error}."
        self.said.setText(said)

    def _activate(self, item: QTreeWidgetItem) -> None:
        entries: list[Entry] = item.data(0, _ENTRY)
        if entries[0].is_folder:
            self.address.setCurrentText(entries[0].address)
            QTimer.singleShot(0, self.list_folder)
        else:
            self._open([entry.address for entry in entries])

    def _open_chosen(self) -> None:
        chosen = [entry for item in self.files.selectedItems() for entry in item.data(0, _ENTRY)]
        self._open([entry.address for entry in chosen])

    def _open(self, addresses: list[str]) -> None:
        try:
            paths = [local_copy(address) for address in addresses]
        except TraceError as error:
            self._failed(error)
            return
        self.open_wanted.emit(paths)
        self.accept()

    def _allow(self) -> None:
        self.open_button.setEnabled(bool(self.files.selectedItems()))
        self.open_all.setEnabled(is_address(self.address.currentText().strip()))

    def _lay_out(self) -> None:
        column = vertical(self, (16, 14, 16, 12), 8)
        top = fill(horizontal(spacing=8), (self.address, 1), self.look)
        fill(column, top, (self.files, 1))
        bottom = horizontal(spacing=8)
        bottom.addWidget(self.said, 1)
        for button in (self.cancel, self.open_all, self.open_button):
            bottom.addWidget(button)
        column.addLayout(bottom)


def grouped(entries: list[Entry]) -> list[tuple[str, list[Entry]]]:
    """Files in order of their names; those that differ by one number alone are ranks of one run, and stand together."""
    alike: dict[str, list[Entry]] = {}
    for entry in entries:
        alike.setdefault(_without_numbers(entry.name), []).append(entry)
    found: list[tuple[str, list[Entry]]] = []
    for pattern, group in alike.items():
        if len(group) < MIN_RANKS or "#" not in pattern:
            found += [(entry.name, [entry]) for entry in group]
        else:
            found.append((f"{pattern.replace('#', '*')}  ({len(group)} ranks)", group))
    return found


def _without_numbers(name: str) -> str:
    letters: list[str] = []
    for letter in PurePosixPath(name).name:
        if not letter.isdigit():
            letters.append(letter)
        elif not letters or letters[-1] != "#":
            letters.append("#")
    return "".join(letters)


def _item(title: str, entries: list[Entry]) -> QTreeWidgetItem:
    total = sum(entry.bytes for entry in entries)
    changed = max(entry.modified for entry in entries)
    when = f"{datetime.fromtimestamp(changed):%Y-%m-%d %H:%M}" if changed else ""
    item = QTreeWidgetItem([title, "" if entries[0].is_folder else size(total), when])
    item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    item.setData(0, _ENTRY, entries)
    return item
