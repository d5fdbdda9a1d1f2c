"""No pattern takes time that grows with the square of a text: names and logs come from strangers."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import parsers
import rules
import viewer
from parsers.model.late import LateRegex

SHORT, LONG = 1_000, 4_000
PATIENCE_S = 0.002  # of processor time; a short text for which the square is taken needs more
SQUARE = 9.0  # four times as long a text takes four times as long, or sixteen times
PARTS = (
    "<",
    "(",
    "[",
    "{",
    " ",
    "_",
    "1",
    "x",
    "-",
    ".",
    '"',
    "\\",
    "::",
    "a,",
    "<a>",
    "a1_",
    "Aa",
    "at::native::",
    "\n",
    " \n",
    "\r\n",
    "\t",
    "a\n",
    "1 \n",
    "- ",
)
ENDS = ("!", "a", "")
SEARCHING = "search|findall|finditer|sub|subn|split"
BOUNDED = {
    "parsers.chrome.decode.stream._FIRST_KEY",  # looks at 4 KB
    "parsers.ncu.labels._METRIC_NAME",  # labels of a few hundred characters
    "parsers.ncu.pages._DIM",  # the first 200 characters
    "parsers.model.names.calls._COMPILED",  # matched from the beginning
    "rules.analysis.names.patterns._OPTIONAL",  # our own patterns
    "rules.analysis.names.patterns._NO_NUMBER",
    "parsers.model.names.kernels._CARRIED",  # the first 400 characters
}


def modules() -> Iterator[ModuleType]:
    for package in (parsers, rules, viewer):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "torch_runner" not in each.name and not each.name.endswith("__main__"):
                yield importlib.import_module(each.name)


def patterns_in(value: Any) -> Iterator[Any]:
    if isinstance(value, re.Pattern | LateRegex):
        yield value
    elif isinstance(value, (dict, list, tuple, set, frozenset)):
        for each in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from patterns_in(each)


def searches(module: ModuleType, name: str) -> bool:
    """Whether a pattern is looked for anywhere in a text, not only at its beginning."""
    text = inspect.getsource(module)
    return bool(re.search(rf"\b{name}\.({SEARCHING})\b", text)) or f"{name}.match" not in text.replace(
        f"{name}.fullmatch", f"{name}.match"
    )


def written_in_place(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Patterns that are handed to a function of ``re`` where they are used."""
    text = inspect.getsource(module)
    if not re.search(rf"\bre\.({SEARCHING}|match|fullmatch)\(", text):
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and isinstance(node.args[0], ast.Constant)
        ):
            anywhere = re.fullmatch(SEARCHING, node.func.attr) is not None
            if anywhere or node.func.attr in ("match", "fullmatch"):
                yield f"{module.__name__}:{node.lineno}", re.compile(node.args[0].value), anywhere


def found() -> dict[str, tuple[re.Pattern[Any], bool]]:
    all_of_them = list(modules())
    named = {
        f"{module.__name__}.{name}": (pattern, searches(module, name))
        for module in all_of_them
        for name, value in vars(module).items()
        for pattern in patterns_in(value)
        if f"{module.__name__}.{name}" not in BOUNDED
    }
    return named | {place: how for module in all_of_them for place, *how in written_in_place(module)}


def seconds(pattern: re.Pattern[Any], anywhere: bool, part: str, end: str, length: int) -> float:
    text: Any = (part * (length // len(part) + 1))[:length] + end
    if isinstance(pattern.pattern, bytes):
        text = text.encode()
    before = time.process_time()
    pattern.match(text)
    pattern.fullmatch(text)
    if anywhere:
        for _ in pattern.finditer(text):
            pass
    return time.process_time() - before


def test_no_pattern_takes_the_square_of_a_text() -> None:
    slow = []
    for name, (pattern, anywhere) in found().items():
        if not re.search(r"[*+{]", str(pattern.pattern)):
            continue  # without repetition no text takes longer than its length
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        words = list(dict.fromkeys(re.findall(r"[A-Za-z_:]{2,}", source)))[:20]
        for part in (*PARTS, *words):
            for end in ENDS:
                if seconds(pattern, anywhere, part, end, SHORT) < PATIENCE_S:
                    continue
                short = min(seconds(pattern, anywhere, part, end, SHORT) for _ in range(2))
                if short < PATIENCE_S:
                    continue
                long = min(seconds(pattern, anywhere, part, end, LONG) for _ in range(2))
                if long > SQUARE * short:  # again, as something else may have had the caches
                    long = min(seconds(pattern, anywhere, part, end, LONG) for _ in range(5))
                if long > SQUARE * short:
                    slow.append(f"{name} on {part!r}: {short * 1e3:.1f} ms, then {long * 1e3:.1f} ms")
    assert not slow


@pytest.mark.parametrize(("pattern", "part"), [(r" *\d", " "), (r"\s*x", " "), (r"(?m)^\s*x: ", "\n")])
def test_a_pattern_that_does_is_found(pattern: str, part: str) -> None:
    assert part in PARTS
    compiled = re.compile(pattern)
    times: tuple[list[float], list[float]] = [], []
    for _ in range(8):  # a busy machine may hide it, but not each time
        for taken, length in zip(times, (SHORT, LONG), strict=True):
            taken.append(seconds(compiled, True, part, "!", length))
        if min(times[1]) > SQUARE * min(times[0]):
            return
    pytest.fail(f"not found: {times}")
