"""No process is a copy of one that has threads: what these held when it was copied is never let go in the copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_modules import program_modules

COPIES = {"os": {"fork", "forkpty"}, "pty": {"fork"}, "multiprocessing": {"Process", "Pool"}}
STARTED_ANEW = {"spawn", "forkserver"}
BY_A_CONTEXT = {"get_context", "set_start_method", "ProcessPoolExecutor"}
# which asks how many there are
COPIED_WITH_ONE_THREAD = {"viewer/loading/ranks/pool.py": ["ProcessPoolExecutor", "get_context"]}
WORDS = re.compile(rf"\b({'|'.join({*BY_A_CONTEXT, 'preexec_fn'}.union(*COPIES.values()))})\b")


def copied(source: str) -> Iterator[str]:
    """What copies a process, or runs something in a copy before it becomes another program."""
    if not WORDS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=module, names=names):
                yield from (each.name for each in names if each.name in COPIES.get(module or "", ()))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in COPIES.get(module, ()):
                yield name
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                if name in BY_A_CONTEXT and not words & STARTED_ANEW:
                    yield name
                yield from (each.arg for each in node.keywords if each.arg == "preexec_fn")


def test_no_process_is_copied_without_a_look_at_its_threads(repository: Path) -> None:
    found = {
        str(file.relative_to(repository)): names
        for file in program_modules(repository)
        if "torch_runner" not in file.parts and (names := list(copied(file.read_text("utf-8"))))
    }
    assert found == COPIED_WITH_ONE_THREAD


@pytest.mark.parametrize(
    "source",
    [
        "os.fork()",
        "from os import fork",
        "pty.fork()",
        "subprocess.Popen(words, preexec_fn=prepare)",
        "multiprocessing.get_context('fork')",
        "multiprocessing.Process(target=work)",
        "ProcessPoolExecutor(4)",
    ],
)
def test_a_copy_is_noticed(source: str) -> None:
    assert list(copied(source))


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.Popen(words, start_new_session=True)",
        "ProcessPoolExecutor(4, multiprocessing.get_context('spawn'))",
    ],
)
def test_what_starts_anew_is_no_copy(source: str) -> None:
    assert list(copied(source)) == []
