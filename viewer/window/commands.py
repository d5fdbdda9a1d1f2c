"""Commands: everything the user can do, once, for menus, shortcuts, the palette and the list of shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenuBar

from parsers.model.late import dataclass

MENUS = ("File", "Edit", "View", "Go", "Help")


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to do, greyed out while nothing is open unless it can ``always`` be done."""

    id: str
    text: str
    run: Callable[..., object]
    shortcuts: str = ""  # separated by spaces
    always: bool = False
    checked: bool | None = None  # a switch, and how it starts
    separated: bool = False  # a line above it in the menu
    hidden: bool = False  # not in the menu
    menu: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.shortcuts.split())


class Commands:
    """The commands of one window as Qt actions."""

    def __init__(self, window: QMainWindow, bar: QMenuBar, commands: Sequence[Command]) -> None:
        self.all = tuple(commands)
        self.actions: dict[str, QAction] = {}
        menus = {name: bar.addMenu(f"&{name}") for name in MENUS}
        self.menus = menus
        for command in commands:
            action = QAction(command.text, window)
            action.setObjectName(command.id)
            action.setShortcuts([QKeySequence(keys) for keys in command.keys])
            action.setToolTip(command.text.rstrip(" ."))
            if command.checked is None:
                action.triggered.connect(lambda _=False, run=command.run: run())
            else:
                action.setCheckable(True)
                action.setChecked(command.checked)
                action.toggled.connect(command.run)
            self.actions[command.id] = action
            window.addAction(action)
            if not command.hidden:
                if command.separated:
                    menus[command.menu].addSeparator()
                menus[command.menu].addAction(action)

    def __getitem__(self, command_id: str) -> QAction:
        return self.actions[command_id]

    def set_trace_open(self, is_open: bool) -> None:
        """Enable what needs a recording, or grey it out."""
        for command in self.all:
            if not command.always:
                self.actions[command.id].setEnabled(is_open)

    def with_keys(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The menus with the keys, as the platform writes them, and the text of each command that has any."""
        native = QKeySequence.SequenceFormat.NativeText
        found: dict[str, list[tuple[str, str]]] = {}
        for command in self.all:
            keys = "   ".join(each.toString(native) for each in self[command.id].shortcuts())
            if keys:
                found.setdefault(command.menu, []).append((keys, command.text.rstrip(" .")))
        return [(menu, found[menu]) for menu in MENUS if menu in found]


def keys_text(action: QAction) -> str:
    """The first shortcut as the platform writes it; empty without one."""
    sequences = action.shortcuts()
    return sequences[0].toString(QKeySequence.SequenceFormat.NativeText) if sequences else ""
