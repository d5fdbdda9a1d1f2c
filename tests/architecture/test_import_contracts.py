"""The direction of imports, as declared in pyproject.toml, holds, and the contracts do catch a breach."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

QT = frozenset({"PySide6", "shiboken6", "pyqtgraph"})


def modules(repository: Path, package: str) -> list[Path]:
    """Every source file of a package."""
    return sorted((repository / package).rglob("*.py"))


def imported_modules(source: str, package: str) -> set[str]:
    """Absolute names of all modules that a source text imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - (node.level - 1)]
                base = ".".join([*parent, base]).rstrip(".")
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def running_code(source: str) -> str:
    """A source text without what only a type checker reads."""

    class Running(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST:
            return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return ast.unparse(Running().visit(ast.parse(source)))


def breaches_of_rules(imports: set[str]) -> set[str]:
    """Imports that a rule may not have: the window, Qt, and of the parsers all but the model."""
    return {
        name
        for name in imports
        if name.split(".")[0] in {"viewer", *QT}
        or (name.split(".")[0] == "parsers" and name.split(".")[:2] != ["parsers", "model"])
    }


def test_the_declared_import_contracts_hold(repository: Path) -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports, "--no-cache"], cwd=repository, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_see_the_model_and_no_file_format(repository: Path) -> None:
    for file in modules(repository, "rules"):
        package = ".".join(file.relative_to(repository).parent.parts)
        assert breaches_of_rules(imported_modules(file.read_text("utf-8"), package)) == set(), file


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from parsers.model import Trace", set()),
        ("from parsers.model.events import EventTable", set()),
        ("def f():\n    import parsers", {"parsers"}),
        ("from parsers import open_trace", {"parsers.open_trace"}),
        ("from parsers.formats.chrome_trace import x", {"parsers.formats.chrome_trace.x"}),
        ("import viewer.appearance.theme", {"viewer.appearance.theme"}),
        ("from PySide6.QtCore import QTimer", {"PySide6.QtCore.QTimer"}),
    ],
)
def test_a_rule_that_reaches_beyond_the_model_is_noticed(source: str, expected: set[str]) -> None:
    assert breaches_of_rules(imported_modules(source, "rules.catalog")) == expected


def test_relative_imports_are_resolved() -> None:
    assert imported_modules("from .. import base\nfrom .gaps import idle", "rules.analysis") == {
        "rules.base",
        "rules.analysis.gaps.idle",
    }


def test_the_parts_of_the_viewer_that_work_without_qt_never_name_it(repository: Path) -> None:
    viewer = repository / "viewer"
    files = [
        viewer / "cli.py",
        *viewer.glob("commands/*.py"),
        *viewer.glob("terminal/*.py"),
        *viewer.glob("timeline/geometry/**/*.py"),
        *viewer.glob("timeline/kinds/**/*.py"),
        *viewer.glob("capture/**/*.py"),
    ]
    for file in files:
        if file.parent.name != "form":
            package = ".".join(file.relative_to(repository).parent.parts)
            imports = imported_modules(running_code(file.read_text("utf-8")), package)
            assert not {name.split(".")[0] for name in imports} & QT, file


def test_resources_import_nothing_of_the_program(repository: Path) -> None:
    for file in modules(repository, "resources"):
        imports = imported_modules(file.read_text("utf-8"), "resources")
        assert not {name.split(".")[0] for name in imports} & {"viewer", "rules", "parsers", *QT}, file


def test_the_folder_packaging_does_not_hide_the_library_of_that_name(repository: Path) -> None:
    assert not (repository / "packaging" / "__init__.py").exists()
