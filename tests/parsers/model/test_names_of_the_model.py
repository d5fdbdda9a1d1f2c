"""What ``parsers.model`` names is loaded when it is asked for, and is what its module has."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from parsers import model


def _named() -> list[tuple[str, str]]:
    tree = ast.parse(Path(model.__file__).read_text("utf-8"))
    return [
        (node.module or "", each.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{model.__name__}.")
        for each in node.names
    ]


def test_every_name_is_that_of_its_module() -> None:
    named = _named()
    assert {("parsers.model.trace", "Trace"), ("parsers.model.counters", "Counter")} <= set(named)
    for home, name in named:
        assert getattr(model, name) is getattr(import_module(home), name), name


@pytest.mark.parametrize("name", ["Nothing", "_HOME", "__wrapped__"])
def test_what_is_nowhere_is_no_name(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(model, name)


def test_numpy_is_loaded_with_the_first_name_that_stands_on_it() -> None:
    script = (
        "import sys; from parsers.model import Progress, TraceError; print('numpy' in sys.modules); "
        "from parsers.model import Trace; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
