"""Places that the user gave a name, with the line that prepares their environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from viewer.remote.names import PlaceName, PlaceProblem, place_kinds, place_of
from viewer.user_data.storage import data_folder, write_text


def remembered() -> dict[str, PlaceName]:
    """Every place that has a name, in their order; those that cannot be read any more are left out."""
    found = {}
    for name, kept in _read().items():
        try:
            found[name] = place_of(str(kept["place"]), str(kept.get("setup", "")))
        except (PlaceProblem, KeyError, TypeError):
            continue
    return found


def find_place(text: str, setup: str = "") -> PlaceName:
    """The place of that name, or the one that the text itself names; raises ``PlaceProblem``."""
    known = remembered().get(text.strip())
    if known is not None:
        return replace(known, setup=setup or known.setup)
    return place_of(text, setup)


def remember(name: str, place: PlaceName) -> None:
    """Give a place a name; raises ``PlaceProblem`` for a name that reads like a place."""
    name = name.strip()
    if not name or name.partition(":")[0] in place_kinds() or "/" in name or not name.isprintable():
        raise PlaceProblem(name, "This cannot be the name of a place.", "Choose a single word, such as box.")
    _write({**_read(), name: {"place": place.text, "setup": place.setup}})


def forget(name: str) -> bool:
    """Forget a name; whether it was known."""
    kept = _read()
    if name not in kept:
        return False
    _write({key: value for key, value in kept.items() if key != name})
    return True


def _path() -> Path:
    return data_folder() / "places.json"


def _read() -> dict[str, dict[str, str]]:
    try:
        kept = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write(kept: dict[str, dict[str, str]]) -> None:
    _path().parent.mkdir(parents=True, exist_ok=True)
    write_text(_path(), json.dumps(kept, ensure_ascii=False, indent=1))
