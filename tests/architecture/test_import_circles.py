"""No two files import each other, however long the way round; folders stay small; the map names the rooms."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

import grimp

PACKAGES = ("stallscope", "viewer", "rules", "parsers", "resources")
MAX_MODULES = 20
CATALOGUES = (
    "rules/catalog", "rules/fixes/catalog",
    "viewer/commands", "viewer/panels/tabs", "viewer/timeline/kinds",
)  # fmt: skip
KNOTS = {  # folders that still import each other: take out what is untied, add nothing
    "viewer.capture.torch_runner.stallscope_recorder <-> viewer.capture.torch_runner.stallscope_recorder.trials",
    "parsers.model <-> parsers.model.names",
    "rules.analysis <-> rules.analysis.ranks",
    "viewer.timeline <-> viewer.timeline.memory",
}


def circles(imports: Mapping[str, Set[str]]) -> list[list[str]]:
    """Groups of modules that reach one another; ``imports`` is what each module imports."""
    found: list[list[str]] = []
    left = {name: set(targets) for name, targets in imports.items()}
    while ends := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in ends:
            del left[name]
    while left:
        reached: dict[str, set[str]] = {name: _reached(left, name) for name in left}
        start = next(iter(left))
        group = sorted(name for name in left if name in reached[start] and start in reached[name])
        if group:
            found.append(group)
        for name in group or [start]:
            del left[name]
    return found


def _reached(imports: Mapping[str, Set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in imports.get(waiting.pop(), set()) - seen:
            seen.add(target)
            waiting.append(target)
    return seen


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 300
    assert circles(imports) == []


def test_no_more_folders_import_each_other(repository: Path) -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    pairs = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pairs.add((_folder(repository, module), _folder(repository, other)))
    assert {f"{one} <-> {other}" for one, other in pairs if one < other and (other, one) in pairs} == KNOTS


def _folder(repository: Path, module: str) -> str:
    is_folder = (repository / module.replace(".", "/")).is_dir()
    return module if is_folder else module.rpartition(".")[0]


def test_a_circle_is_noticed_and_named() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set(), "c": {"a", "b"}}) == []


def test_no_folder_is_a_heap(repository: Path) -> None:
    folders: dict[str, int] = {}
    for package in PACKAGES:
        for file in (repository / package).rglob("*.py"):
            folder = str(file.parent.relative_to(repository))
            folders[folder] = folders.get(folder, 0) + (file.name != "__init__.py")
    heaps = {name: count for name, count in folders.items() if count > MAX_MODULES and name not in CATALOGUES}
    assert heaps == {}


def test_the_map_names_every_room_and_no_other(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text("utf-8")
    rooms = {
        str(file.parent.relative_to(repository))
        for package in PACKAGES
        for file in (repository / package).rglob("__init__.py")
    }
    unnamed = sorted(room for room in rooms if f"`{room}`" not in text and f"`{room}/`" not in text)
    assert unnamed == []
