"""Files and lines of the program's own calls, without stacks: what is noted, how often, and what torch is left as."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from viewer.capture.torch_runner.stallscope_recorder.places import KEY, MAX_PLACES, READ, Places, ScalarReads
from viewer.capture.torch_runner.stallscope_recorder.ranges import GarbageRanges, Ranges

HERE = str(Path(__file__).resolve())


def noted(places: Places) -> list[list[Any]]:
    taken = places.taken()
    found: list[list[Any]] = json.loads(b"{" + taken.rstrip(b",") + b"}").get(KEY, [])
    return found


def line_with(text: str, file: str = HERE) -> int:
    """The first line that holds the text."""
    lines = Path(file).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_line_of_the_call_is_noted_with_how_often_it_was() -> None:
    places = Places()
    for _ in range(3):
        places.note("data")  # counted three times
    function = "test_the_line_of_the_call_is_noted_with_how_often_it_was"
    assert noted(places) == [["data", HERE, line_with("# counted three times"), function, 3]]
    assert places.taken() == b""


def test_libraries_on_the_stack_are_passed_over(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "trainer.py"
    library.parent.mkdir()
    library.write_text("def fit(call):\n    call()\n")
    space: dict[str, Any] = {}
    exec(compile(library.read_text(), str(library), "exec"), space)
    places = Places()
    space["fit"](lambda: places.note("data"))
    sorted([1], key=lambda _: places.note("backward") or 0)
    assert [each[1] for each in noted(places)] == [HERE, HERE]


def test_what_only_libraries_call_has_no_place(tmp_path: Path) -> None:
    places = Places()
    thread = threading.Thread(target=places.note, args=("data",))
    thread.start()
    thread.join()
    assert places.taken() == b""


def test_only_so_many_places_are_told_apart_and_known_ones_still_counted() -> None:
    places = Places()
    for number in range(MAX_PLACES + 5):
        places.note(f"range {number}")
    found = noted(places)
    assert len(found) == MAX_PLACES
    for number in [0, MAX_PLACES, 0, 0, *range(MAX_PLACES)]:
        places.note(f"range {number}")
    assert {name: count for name, *_, count in noted(places)}["range 0"] == 4


def test_ranges_are_noted_while_they_are_recorded_and_collections_of_garbage_are_not() -> None:
    names: list[str] = []
    ranges = Ranges(lambda name: name, lambda _: None)
    ranges.note = names.append
    ranges.open(1, "data")
    ranges.enabled = True
    ranges.open(2, "backward")
    ranges.open(3, GarbageRanges.NAME)
    assert names == ["backward"]


@pytest.fixture
def tensor_class(monkeypatch: pytest.MonkeyPatch) -> type:
    """A torch whose tensors have ``item`` from a class below, as the real one has."""

    class Base:
        device = SimpleNamespace(type="cuda")

        def item(self) -> int:
            return 7

        tolist = __float__ = __int__ = __bool__ = item

    class Tensor(Base):
        def tolist(self) -> int:
            return 8

    torch: Any = ModuleType("torch")
    torch.Tensor = Tensor
    torch.compiler = SimpleNamespace(is_compiling=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Tensor


def test_values_read_from_a_gpu_are_noted_and_the_methods_put_back(tensor_class: Callable[[], Any]) -> None:
    ranges, places = Ranges(lambda name: name, lambda _: None), Places()
    before = dict(vars(tensor_class))
    ranges.watch_with(ScalarReads(places))
    tensor = tensor_class()
    assert tensor.item() == 7
    assert dict(vars(tensor_class)) == before
    ranges.enabled = True
    assert (tensor.item(), tensor.tolist()) == (7, 8)  # read here
    tensor.device = SimpleNamespace(type="cpu")
    assert tensor.item() == 7
    ranges.enabled = False
    assert dict(vars(tensor_class)) == before
    ((name, _, line, _, count),) = noted(places)
    assert (name, line, count) == (READ, line_with("# read here"), 2)
