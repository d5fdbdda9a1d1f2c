"""Questions that people save, as text files that can be shared, and what they asked lately; no Qt."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from parsers.model.late import regex
from viewer.user_data.storage import data_folder, write_text

MAX_KEPT, MAX_LENGTH = 50, 20_000
_UNSAFE = regex(r"[^\w \-.()+,]")


def folder() -> Path:
    """Where they lie: one ``.sql`` file each, whose name is the title."""
    return data_folder() / "questions"


def own_questions() -> dict[str, str]:
    """Title -> text of every saved question, by title."""
    found = {}
    with contextlib.suppress(OSError):
        for file in sorted(folder().glob("*.sql")):
            with contextlib.suppress(OSError, ValueError):
                found[file.stem] = file.read_text("utf-8")[:MAX_LENGTH]
    return found


def save_question(title: str, sql: str) -> str:
    """Keep a question; its title as it is kept. Raises ``OSError``."""
    name = _UNSAFE.sub("_", title).strip(" .")[:80] or "question"
    folder().mkdir(parents=True, exist_ok=True)
    write_text(folder() / f"{name}.sql", sql.rstrip() + "\n")
    return name


def remove_question(title: str) -> None:
    """Forget a saved question."""
    with contextlib.suppress(OSError):
        (folder() / f"{title}.sql").unlink()


def asked_lately() -> list[str]:
    """What was asked, the newest first; empty where nothing was, or the list is damaged."""
    try:
        stored = json.loads((data_folder() / "asked.json").read_text("utf-8"))
        return [str(each)[:MAX_LENGTH] for each in stored][:MAX_KEPT]
    except (OSError, ValueError, TypeError):
        return []


def remember_question(sql: str) -> None:
    """Put a question first in the list; a list that cannot be written is no reason to fail."""
    kept = [sql, *(each for each in asked_lately() if each != sql)][:MAX_KEPT]
    with contextlib.suppress(OSError):
        write_text(data_folder() / "asked.json", json.dumps(kept))
