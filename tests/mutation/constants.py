"""The constants that rules and parsers decide by, where each is read, and what each is changed to."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Set
from functools import cache
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = ("parsers", "rules")
READERS = ("parsers", "rules", "viewer", "stallscope")
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
SMALL = 4  # a count up to here is changed by one, everything else by a factor
FACTOR = 2
FEW_IMPORTERS = 6
SPEED_ALONE = re.compile(r"AT_ONCE$|POLL_S$|^_?WORTH_")
ANY_NUMBER = "FORMAT"  # of what is stored: another one than before, whichever
SHOWN_ALONE = re.compile(r"^_?MAX_(EVIDENCE|LISTED|NAMED|NAME|NAME_LENGTH)$")  # of rules


@dataclass(frozen=True, slots=True)
class Constant:
    """One number at the top of a module: of ``MIN_STEPS = 3``, or the default of a ``threshold(...)``."""

    file: str
    name: str
    line: int
    value: int | float

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name} = {self.value:g}"

    def changes(self) -> tuple[int | float, int | float]:
        """A value above and one below."""
        if isinstance(self.value, int) and self.value <= SMALL:
            return self.value + 1, self.value - 1
        below = self.value // FACTOR if isinstance(self.value, int) else self.value / FACTOR
        return self.value * FACTOR, below


def _number(node: ast.expr) -> int | float | None:
    """What an expression of numbers alone comes to, such as ``5 * 1_000_000`` or ``1 << 20``."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (value := _number(operand)) is not None:
            return -value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            before, after = _number(left), _number(right)
            return None if before is None or after is None else OPERATORS[type(op)](before, after)
    return None


@cache
def parsed(file: str) -> ast.Module:
    """The source of a module of the product."""
    return ast.parse((REPOSITORY / file).read_bytes())


def module_of(file: str) -> str:
    """What a file is imported as."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def file_of(module: str) -> str:
    """The file of a module or of a package."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (REPOSITORY / path).is_dir() else f"{path}.py"


@cache
def _files(root: str) -> list[str]:
    return sorted(file.relative_to(REPOSITORY).as_posix() for file in (REPOSITORY / root).rglob("*.py"))


def _modules(*roots: str) -> Iterator[tuple[str, ast.Module]]:
    for root in roots:
        for file in _files(root):
            yield file, parsed(file)


def constants() -> list[Constant]:
    """Every constant of rules and parsers that decides something, in the order of files.

    Numbers below zero stand for nothing. No result depends on how much is handled at once (``..._AT_ONCE``), from how
    much on a quicker way to the same pays (``WORTH_...``), how often one looks for an end (``..._POLL_S``), or by which
    number a stored file's format goes; none of a rule on how much of an answer is named or shown (``MAX_NAMED``,
    ``MAX_EVIDENCE``, ...).
    """
    return [
        Constant(file, name, at.lineno, value)
        for file, module in _modules(*ROOTS)
        for statement in module.body
        if (found := assigned(statement)) is not None
        for name, at in [found]
        if (value := _number(at)) is not None and value >= 0 and not _decides_nothing(file, name)
    ]


def _decides_nothing(file: str, name: str) -> bool:
    shown_alone = file.startswith("rules/") and SHOWN_ALONE.search(name)
    return bool(shown_alone or SPEED_ALONE.search(name) or name == ANY_NUMBER)


def assigned(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name that a statement gives a value, and the expression of that value."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="threshold"), args=given)
        ):
            return name, given[3]
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value) if name.isupper():
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name.isupper():
            return name, value
    return None


@cache
def _readers() -> dict[str, list[tuple[str, str, bool]]]:
    """By name: module and function that reads it, or the name that a module makes of it as it is loaded.

    The last one says whether it is a function; where neither has a name, the second one is empty.
    """
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for file, module in _modules(*READERS):
        _read_in(module, file, "", False, found)
    return found


@cache
def _importers() -> dict[tuple[str, str], set[str]]:
    """By file and name: the files that import it."""
    found: dict[tuple[str, str], set[str]] = {}
    for file, module in _modules(*READERS):
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    found.setdefault((file_of(node.module), name.name), set()).add(file)
    return found


def users_of(file: str, name: str) -> set[str]:
    """The files that import a name from another one."""
    return _importers().get((file, name), set())


def importers_of(files: Set[str]) -> set[str]:
    """The files that import something of some files, where these are few: who asks what reads a constant."""
    found = {user for (file, _), users in _importers().items() if file in files for user in users}
    return found if len(found) <= FEW_IMPORTERS else set()


def _read_in(
    node: ast.AST, file: str, inside: str, is_function: bool, found: dict[str, list[tuple[str, str, bool]]]
) -> None:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) if name.isupper():
                found.setdefault(name, []).append((file, inside, is_function))
            case ast.Assign(targets=[ast.Name(id=name)]) if not is_function:
                _read_in(child, file, name, False, found)
                continue
            case ast.ClassDef(name=name) if not is_function:
                _read_in(child, file, name, False, found)
                continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not is_function:
                _read_in(child, file, f"{inside}.{name}".lstrip("."), True, found)
                continue
        _read_in(child, file, inside, is_function, found)


def read_by(constant: Constant) -> set[tuple[str, str]]:
    """Functions, as file and name, that read a constant or another one made of it.

    No name stands for any function of the file: what a class or a module makes of it as it is loaded.
    """
    knows = {constant.file, *users_of(constant.file, constant.name)}
    found: set[tuple[str, str]] = set()
    for file, inside, is_function in _readers().get(constant.name, []):
        if file not in knows:
            continue
        if is_function or not inside.isupper():
            found.add((file, inside if is_function else ""))
        elif inside != constant.name:
            found |= read_by(Constant(file, inside, 0, 0))
    return found


def _as_loaded(node: ast.AST) -> Iterator[str]:
    """Names that are read while a module is loaded, for more than a sentence: all but the bodies of its functions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) if name.isupper():
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in (*child.decorator_list, child.args):
                    yield from _as_loaded(part)
                continue
            case ast.Lambda() | ast.JoinedStr():
                continue
        yield from _as_loaded(child)


@cache
def _read_as_loaded(file: str) -> frozenset[str]:
    return frozenset(_as_loaded(parsed(file)))


def made_of_it_as_loaded(constant: Constant) -> bool:
    """Whether a module or a class keeps something that was made of a constant when it was loaded."""
    knows = {constant.file, *users_of(constant.file, constant.name)}
    return any(constant.name in _read_as_loaded(file) for file in knows)
