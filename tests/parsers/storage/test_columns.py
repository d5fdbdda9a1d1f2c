"""Columns come back from a file as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from parsers.model import Cancelled, Progress
from parsers.storage import columns
from parsers.storage.columns import NotAsWritten

SHARED = np.arange(7, dtype=np.int32)
COLUMNS: dict[str, npt.NDArray[np.generic]] = {
    "times": np.arange(1000, dtype=np.int64) ** 2,
    "values": np.linspace(0, 1, 33),
    "kinds": np.array([3, 1, 2], np.uint8),
    "empty": np.empty(0, np.int64),
    "one": SHARED,
    "the same": SHARED,
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "some.columns"
    columns.write(path, COLUMNS, b"and words")
    return path


def test_columns_and_words_come_back(written: Path) -> None:
    words, back = columns.read(written)
    assert words == b"and words"
    assert back.keys() == COLUMNS.keys()
    for name, column in COLUMNS.items():
        np.testing.assert_array_equal(back[name], column, strict=True)
        assert not back[name].flags.writeable


def test_an_array_of_two_names_is_stored_once(written: Path) -> None:
    _, back = columns.read(written)
    assert back["one"] is back["the same"]


def test_no_columns_at_all_come_back(tmp_path: Path) -> None:
    path = tmp_path / "nothing.columns"
    columns.write(path, {})
    assert columns.read(path) == (b"", {})


def test_a_file_that_is_there_is_not_written_over(written: Path) -> None:
    with pytest.raises(FileExistsError):
        columns.write(written, {})


@example(place=0, bits=1)
@example(place=-1, bits=255)
@given(place=st.integers(-20_000, 20_000), bits=st.integers(1, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_changed_byte_changes_a_column(written: Path, tmp_path: Path, place: int, bits: int) -> None:
    data = bytearray(written.read_bytes())
    data[place % len(data)] ^= bits
    path = tmp_path / "changed.columns"
    path.write_bytes(data)
    try:
        words, back = columns.read(path)
    except NotAsWritten:
        return
    assert words == b"and words"  # a byte between two columns, which nobody reads
    for name, column in COLUMNS.items():
        np.testing.assert_array_equal(back[name], column, strict=True)


@pytest.mark.parametrize("left", [0, 5, 19, 20, 1000, -1])
def test_a_file_that_was_cut_is_refused(written: Path, tmp_path: Path, left: int) -> None:
    path = tmp_path / "cut.columns"
    path.write_bytes(written.read_bytes()[:left])
    with pytest.raises(NotAsWritten):
        columns.read(path)


@pytest.mark.parametrize(
    ("dtype", "count", "offset"),
    [("<i8", 1 << 40, 0), ("<i8", -1, 0), ("<i8", 1, -8), ("|O", 1, 0), ("|V0", 1 << 60, 0), ("<U1", 2, 0)],
)
def test_a_directory_that_lies_is_refused(tmp_path: Path, dtype: str, count: int, offset: int) -> None:
    place = columns._Place(dtype, count, offset, 0)
    directory = msgspec.msgpack.encode(columns._Directory({"times": place}, b""))
    end = columns._END.pack(len(directory), columns.crc32(directory), columns._MAGIC)
    path = tmp_path / "lying.columns"
    path.write_bytes(bytes(64) + directory + end)
    with pytest.raises(NotAsWritten):
        columns.read(path)


def test_reading_can_be_cancelled(written: Path) -> None:
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        columns.read(written, progress)
