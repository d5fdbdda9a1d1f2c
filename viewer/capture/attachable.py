"""Programs of this machine that can be recorded although they run already."""

from __future__ import annotations

from pathlib import Path

from parsers.model.late import dataclass
from viewer.appearance.plain_text import one_line
from viewer.capture.process_tree import state_and_parent
from viewer.capture.torch_runner.stallscope_recorder.attaching import environment_of

SWITCH = "KINETO_USE_DAEMON"
_MAX_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Attachable:
    """A process that lets itself be asked, and the command that started it, as one line."""

    pid: int
    command: str


def attachable_programs() -> list[Attachable]:
    """Processes of this user that were started with the switch, without those that such a process started."""
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if entry.name.isdigit()]
    prepared = {pid for pid in pids if environment_of(pid).get(SWITCH)}
    found = [
        Attachable(pid, _command(pid)) for pid in sorted(prepared) if state_and_parent(pid)[1] not in prepared
    ]
    return [each for each in found if each.command]


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    line = one_line(" ".join(filter(None, words)))
    return line if len(line) <= _MAX_LETTERS else f"{line[: _MAX_LETTERS - 3]}..."
