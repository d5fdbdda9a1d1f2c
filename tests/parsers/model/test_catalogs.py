"""Packages whose modules register what they hold: all of them are found, also those in rooms inside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsers.model.catalogs import load_all, modules_of


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of one module, with a room of two inside; it is gone after the test."""
    for folder in (tmp_path / "acme_catalog", tmp_path / "acme_catalog" / "room"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    for name in ("first", "room/second", "room/third"):
        (tmp_path / "acme_catalog" / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield "acme_catalog"
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_the_modules_of_rooms_inside_are_loaded_too(catalog: str) -> None:
    load_all(catalog)
    assert {f"{catalog}.first", f"{catalog}.room.second", f"{catalog}.room.third"} <= sys.modules.keys()


def test_only_what_lies_right_inside_is_named(catalog: str) -> None:
    assert modules_of(f"{catalog}.room") == ("second", "third")
