"""Changes a constant in the memory of a copy of this process, and runs the tests that can notice there."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from rules.terms.thresholds import Threshold
from tests.mutation.constants import Constant, module_of, parsed, users_of

MISSED, NOTICED, BROKEN = range(3)
HANG_S = 300  # of a processor; a change with which tests never end is noticed as well


def change(constant: Constant, value: float) -> None:
    """Give a constant another value in every module that knows it, and in what these made of it as they were loaded."""
    module = importlib.import_module(module_of(constant.file))
    known = getattr(module, constant.name)
    if isinstance(known, Threshold):
        object.__setattr__(known, "default", value)
    else:
        _spread(constant.file, constant.name, value)


def _spread(file: str, name: str, value: object) -> None:
    for user in (file, *users_of(file, name)):
        module = importlib.import_module(module_of(user))
        setattr(module, name, value)
        for statement in parsed(user).body:
            _remade(user, module, statement, name)


def _reads(node: ast.AST | None, name: str) -> bool:
    return node is not None and any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def _evaluated(node: ast.expr, module: types.ModuleType) -> object:
    return eval(
        compile(ast.Expression(node), module.__name__, "eval"), vars(module)
    )  # the module's own source


def _remade(file: str, module: types.ModuleType, statement: ast.stmt, name: str) -> None:
    """What a statement of a module makes of a constant: other constants, defaults of functions, fields of classes."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=made)], value=ast.expr() as expression)
            | ast.AnnAssign(target=ast.Name(id=made), value=ast.expr() as expression)
        ) if made != name and _reads(expression, name):
            _spread(file, made, _evaluated(expression, module))
        case ast.FunctionDef(name=called):
            _new_defaults(getattr(module, called), statement, module, name)
        case ast.ClassDef(name=called):
            made_class = getattr(module, called)
            for inner in statement.body:
                match inner:
                    case ast.FunctionDef():
                        _new_defaults(vars(made_class).get(inner.name), inner, module, name)
                    case ast.AnnAssign(target=ast.Name(id=attribute), value=ast.expr() as expression) if (
                        _reads(expression, name)
                    ):
                        _new_field(made_class, attribute, _evaluated(expression, module))


def _new_defaults(function: object, written: ast.FunctionDef, module: types.ModuleType, name: str) -> None:
    function = getattr(function, "__func__", getattr(function, "__wrapped__", function))
    if not isinstance(function, types.FunctionType):
        return
    if any(_reads(each, name) for each in written.args.defaults):
        function.__defaults__ = tuple(_evaluated(each, module) for each in written.args.defaults)
    for argument, default in zip(written.args.kwonlyargs, written.args.kw_defaults, strict=True):
        if default is not None and _reads(default, name):
            function.__kwdefaults__[argument.arg] = _evaluated(default, module)


def _new_field(made_class: type, attribute: str, value: object) -> None:
    """A class variable, or the default of a field of a dataclass, which its ``__init__`` knows."""
    fields = [name for name, each in getattr(made_class, "__dataclass_fields__", {}).items() if each.init]
    if attribute not in fields:
        setattr(made_class, attribute, value)
        return
    defaults = list(made_class.__init__.__defaults__ or ())  # type: ignore[misc]
    defaults[fields.index(attribute) - len(fields)] = value
    made_class.__init__.__defaults__ = tuple(defaults)  # type: ignore[misc]


@dataclass
class Changes:
    """A plugin of pytest that runs, instead of all tests, those of each change, in as many copies as ``processes``."""

    changes: Sequence[tuple[Constant, float]]
    tests_of: Mapping[Constant, Sequence[str]]
    processes: int
    noticed: list[bool] = field(default_factory=list)
    _failed: bool = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self.noticed = [False] * len(self.changes)
        waiting = list(enumerate(self.changes))[::-1]
        under_way: dict[int, int] = {}
        while waiting or under_way:
            while waiting and len(under_way) < self.processes:
                number, (constant, value) = waiting.pop()
                chosen = [items[name] for name in self.tests_of[constant]]
                if pid := os.fork():
                    under_way[pid] = number
                else:
                    self._in_copy(constant, value, chosen)
            pid, status = os.wait()
            number = under_way.pop(pid)
            constant, value = self.changes[number]
            assert os.WEXITSTATUS(status) in (MISSED, NOTICED), f"{constant} could not be changed"
            self.noticed[number] = status != 0
            told = "noticed" if status else "MISSED "
            print(
                f"\n{told} {constant} -> {value:g}, {len(self.tests_of[constant])} tests", end="", flush=True
            )
        return True

    def _in_copy(self, constant: Constant, value: float, items: Sequence[pytest.Item]) -> None:
        """Ends the process: with what became of the change."""
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        code = BROKEN
        try:
            change(constant, value)
            self._failed = False
            for number, item in enumerate(items, 1):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=(*items, None)[number])
                if self._failed:
                    break
            code = NOTICED if self._failed else MISSED
        finally:
            os._exit(code)
