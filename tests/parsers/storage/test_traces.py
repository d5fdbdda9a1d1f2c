"""A stored trace says by itself what its numbers mean, and is refused where they mean something else."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from parsers import model, open_trace
from parsers.model import Trace
from parsers.model.events import COLUMNS
from parsers.model.memory import Allocations, Blocks, Failure, Frame, Mark, MemoryWords
from parsers.storage import columns, traces
from tests.examples import one_of

# What a change of the model does to what was stored before it: the file is read by a program with that change.
CHANGES = {
    "a kind of lane in the middle": ("lanes.py", '    REGION = "region"', '    NEW = "new"\n    REGION = "region"'),
    "kinds of events in another order": ("lanes.py", "CPU_OP = 1\n    PYTHON = 2", "PYTHON = 1\n    CPU_OP = 2"),
    "kinds of copies with other numbers": ("attributes.py", "H2D = 1\n    D2H = 2", "D2H = 1\n    H2D = 2"),
    "one more thing about a device": ("lanes.py", '    uuid: str = ""\n', '    uuid: str = ""\n    slot: int = 0\n'),
    "an attribute of another name": ("attributes.py", '"grid_shape"', '"shape_of_grid"'),
}  # fmt: skip
READ = """
import json, sys
from pathlib import Path
from parsers.storage import traces
path, as_if = Path(sys.argv[1]), sys.argv[2]
print(json.dumps({"meaning": traces.meaning()}))
if as_if:
    traces.meaning = lambda: as_if
trace = traces.read(path, ())
print(json.dumps([lane.kind.name for lane in trace.lanes]))
"""


@pytest.fixture(scope="session")
def trace(fixtures: Path) -> Trace:
    return open_trace([fixtures / "torch/memory_stack.pt.trace.json.gz"])


@pytest.fixture
def stored(trace: Trace, tmp_path: Path) -> Path:
    path = tmp_path / "stored.columns"
    traces.write(path, trace)
    return path


def read_by_changed_program(
    repository: Path, folder: Path, change: str, stored: Path, as_if: str = ""
) -> subprocess.CompletedProcess[str]:
    shutil.copytree(repository / "parsers", folder / "parsers", ignore=shutil.ignore_patterns("__pycache__"))
    name, before, after = CHANGES[change]
    changed = folder / "parsers" / "model" / name
    text = changed.read_text("utf-8")
    assert before in text
    changed.write_text(text.replace(before, after), "utf-8")
    command = [sys.executable, "-c", READ, str(stored), as_if]
    environment = {"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


@pytest.mark.parametrize("change", one_of(3, CHANGES))
def test_a_changed_model_has_another_meaning_and_refuses_what_was_stored_before(
    repository: Path, tmp_path: Path, stored: Path, change: str
) -> None:
    result = read_by_changed_program(repository, tmp_path, change, stored)
    assert json.loads(result.stdout)["meaning"] != traces.meaning()
    assert "NotAsWritten" in result.stderr


def test_a_kind_of_lane_in_the_middle_leaves_the_lanes_of_a_file_what_they_were(
    repository: Path, tmp_path: Path, stored: Path, trace: Trace
) -> None:
    change = "a kind of lane in the middle"
    result = read_by_changed_program(repository, tmp_path, change, stored, as_if=traces.meaning())
    assert json.loads(result.stdout.splitlines()[1]) == [lane.kind.name for lane in trace.lanes]


def test_the_meaning_covers_every_vocabulary_and_every_field_of_the_model() -> None:
    described = "\n".join(traces.described())
    for inner in (Allocations, Blocks, MemoryWords, Frame, Failure, Mark):
        assert all(f"{inner.__name__}.{name}: " in described for name in inner.__annotations__), inner
    held_elsewhere = {"Trace", "EventTable", "Links", "AttributeColumn", "Counter", "QualityRecorder"}
    for name, what in vars(model).items():
        if isinstance(what, type) and issubclass(what, Enum):
            assert all(f"{name}.{each.name} = {each.value!r}" in described for each in what), name
        elif dataclasses.is_dataclass(what) and name not in held_elsewhere:
            assert all(f"{name}.{each.name}: " in described for each in dataclasses.fields(what)), name


Column = npt.NDArray[np.generic]


def _with(column: Column, place: int, value: int) -> Column:
    changed = column.copy()
    changed[place] = value
    return changed


def _beyond(column: Column) -> Column:
    return _with(column, -1, np.iinfo(column.dtype).max)


def _negative(column: Column) -> Column:
    return _with(column, 0, -1)


def _wider(column: Column) -> Column:
    return column.astype(np.float64 if column.dtype == np.int64 else np.int64)


def _shorter(column: Column) -> Column:
    return column[:-1]


def _backwards(column: Column) -> Column:
    return column[::-1]


@pytest.mark.parametrize(
    ("change", "complaint", "names"),
    [
        (_beyond, "leads nowhere", ["event.name", "event.lane", "link.operation", "link.launch"]),
        (_beyond, "leads nowhere", ["bytes.event", "grid_shape.value"]),
        (_beyond, "none that is known", ["event.kind", "copy_kind.value"]),
        (_negative, "leads nowhere", ["event.name", "event.lane", "link.launch", "grid_shape.value"]),
        (_negative, "before the first moment, or above the first row", ["event.start", "event.depth"]),
        (_wider, "is not made of", [f"event.{name}" for name in COLUMNS]),
        (_wider, "is not made of", ["link.operation", "link.launch", "bytes.event", "bytes.value"]),
        (_wider, "is not made of", ["counter.0.time"]),
        (_shorter, "differ in length", ["event.start", "event.kind"]),
        (_shorter, "lack launches", ["link.operation", "link.launch"]),
        (_shorter, "no value for each", ["bytes.event", "bytes.value", "counter.0.value"]),
        (_backwards, "not in order", ["link.operation", "bytes.event", "counter.0.time"]),
        (_backwards, "ends before it starts", ["event.start"]),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    stored: Path, tmp_path: Path, change: Callable[[Column], Column], complaint: str, names: list[str]
) -> None:
    words, held = columns.read(stored)
    for name in names:
        path = tmp_path / f"{name} changed"
        columns.write(path, {**held, name: change(held[name])}, words)
        with pytest.raises(ValueError, match=complaint):
            traces.read(path, ())


@pytest.mark.parametrize(
    ("change", "complaint", "names"),
    [
        (_beyond, "leads nowhere", ["allocation.device", "allocation.stack", "block.device", "block.stack"]),
        (_beyond, "leads nowhere", ["stack_frame"]),
        (_beyond, "do not follow", ["stack_offset"]),
        (_beyond, "none that is known", ["block.state"]),
        (_backwards, "do not follow", ["stack_offset"]),
        (_shorter, "differ in length", ["allocation.size", "block.size"]),
        (_shorter, "do not follow", ["stack_frame"]),
        (_wider, "is not made of", ["allocation.start", "block.state", "stack_offset", "stack_frame"]),
    ],
)
def test_memory_whose_columns_do_not_fit_together_is_refused(
    fixtures: Path, tmp_path: Path, change: Callable[[Column], Column], complaint: str, names: list[str]
) -> None:
    traces.write(tmp_path / "stored", open_trace([fixtures / "memory" / "oom.snapshot.pickle.gz"]))
    words, held = columns.read(tmp_path / "stored")
    for name in (f"memory.0.{each}" for each in names):
        columns.write(tmp_path / name, {**held, name: change(held[name])}, words)
        with pytest.raises(ValueError, match=complaint):
            traces.read(tmp_path / name, ())


def test_a_column_that_is_missing_is_refused(stored: Path, tmp_path: Path) -> None:
    words, held = columns.read(stored)
    path = tmp_path / "changed.columns"
    columns.write(path, {name: column for name, column in held.items() if name != "link.launch"}, words)
    with pytest.raises(KeyError):
        traces.read(path, ())
