"""Opening a line of the user's own code in an editor: which editors there are, and how each is started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

from parsers.model.late import dataclass

FILE, LINE = "{file}", "{line}"
QUOTED, SERVER = "{quoted}", "{server}"  # the file inside a string of Vim's; the address of a running Neovim
_NEEDS_A_TERMINAL = frozenset({"vi", "vim", "nvim", "nano", "emacs -nw", "hx", "helix", "micro", "kak"})


@dataclass(frozen=True, slots=True)
class Editor:
    """``command`` is a program with its arguments, in which {file} and {line} stand for the place."""

    name: str
    command: tuple[str, ...]

    @property
    def is_here(self) -> bool:
        """Whether the program is on PATH, and runs where it must be running."""
        is_running = SERVER not in self.command or bool(neovim_address())
        return is_running and shutil.which(self.command[0]) is not None

    def arguments(self, file: Path, line: int) -> list[str]:
        """What is started: a list, never a line for a shell."""
        quoted = str(file).replace("'", "''")
        words = (each.replace(LINE, str(line)).replace(SERVER, neovim_address()) for each in self.command)
        return [each.replace(QUOTED, quoted).replace(FILE, str(file)) for each in words]


EDITORS = (
    Editor("VS Code", ("code", "--goto", "{file}:{line}")),
    Editor("Cursor", ("cursor", "--goto", "{file}:{line}")),
    Editor("PyCharm", ("pycharm", "--line", "{line}", "{file}")),
    Editor("Sublime Text", ("subl", "{file}:{line}")),
    Editor("Zed", ("zed", "{file}:{line}")),
    Editor("Vim (its server)", ("vim", "--remote-silent", "+{line}", "{file}")),
    Editor(
        "Neovim (its server)",
        ("nvim", "--server", SERVER, "--remote-expr", f"execute('edit +{LINE} ' .. fnameescape('{QUOTED}'))"),
    ),
    Editor("Emacs", ("emacsclient", "--no-wait", "+{line}", "{file}")),
)


def neovim_address() -> str:
    """Where a running Neovim listens; empty for none."""
    return os.environ.get("NVIM") or os.environ.get("NVIM_LISTEN_ADDRESS") or ""


class NoEditor(Exception):
    """No editor can be started, or the file is not here; the text says which and what to do."""


def editor_of(template: str) -> Editor | None:
    """The editor that a template such as "code --goto {file}:{line}" describes; None for one without a file."""
    words = split(template)
    return (
        Editor(words[0], tuple(words))
        if words and any(FILE in word or QUOTED in word for word in words[1:])
        else None
    )


def split(template: str) -> list[str]:
    """The words of a command as this system's shells separate them; none where quotes do not close."""
    try:
        words = shlex.split(template, posix=sys.platform != "win32")
    except ValueError:
        return []
    return [word.strip('"') for word in words] if sys.platform == "win32" else words


def chosen_editor(template: str, environment: Mapping[str, str] = os.environ) -> Editor | None:
    """That of the preference, else $VISUAL or $EDITOR where it has a window, else the first that is installed."""
    if template:
        return editor_of(template)
    for name in ("VISUAL", "EDITOR"):
        words = split(environment.get(name, ""))
        if words and PurePath(words[0]).stem not in _NEEDS_A_TERMINAL and shutil.which(words[0]):
            known = next((each for each in EDITORS if each.command[0] == PurePath(words[0]).stem), None)
            return known or Editor(words[0], (*words, FILE))
    return next((each for each in EDITORS if each.is_here), None)


def open_line(file: Path, line: int, template: str) -> None:
    """Start the editor and leave it alone; raises NoEditor."""
    from PySide6.QtCore import QProcess

    editor = chosen_editor(template)
    if editor is None:
        raise NoEditor("No editor was found. Name one in Preferences, such as: code --goto {file}:{line}")
    if not file.is_file():
        raise NoEditor(
            f"{file} does not exist here. If the recording was made elsewhere, map its folder in Preferences."
        )
    program = shutil.which(editor.command[0])
    if program is None:
        raise NoEditor(f"{editor.command[0]} is not on PATH. Choose another editor in Preferences.")
    process = QProcess()
    process.setProgram(program)
    process.setArguments(editor.arguments(file, line)[1:])
    for set_file in (
        process.setStandardInputFile,
        process.setStandardOutputFile,
        process.setStandardErrorFile,
    ):
        set_file(QProcess.nullDevice())
    started = bool(process.startDetached())
    if not started:
        raise NoEditor(f"{editor.command[0]} could not be started.")
