"""How much a packed file may unpack to, and how many objects may be made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.files.base import Source
from parsers.files.unpacking_limit import UnpackingLimit
from parsers.model import TraceError

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def limit_of(folder: Path, packed: int, compression: str = "gzip") -> UnpackingLimit:
    path = folder / "recording"
    with path.open("wb") as file:
        file.truncate(packed)
    return UnpackingLimit(Source(path, b"", compression))


@pytest.mark.parametrize(
    ("packed", "unpacked"),
    [(KB, 64 * MB), (MB, 200 * MB), (100 * MB, 16 * GB)],
    ids=["always allowed", "two hundred times its size", "what fits into memory"],
)
def test_a_packed_file_may_unpack_to_so_much_and_no_byte_more(
    tmp_path: Path, packed: int, unpacked: int
) -> None:
    limit = limit_of(tmp_path, packed)
    limit.add(unpacked)
    with pytest.raises(TraceError, match=f"more than {unpacked // MB:,} MB"):
        limit.add(1)


def test_a_plain_file_may_be_as_large_as_memory_allows(tmp_path: Path) -> None:
    limit = limit_of(tmp_path, KB, "")
    limit.add(16 * GB)
    with pytest.raises(TraceError, match="more than 16,384 MB"):
        limit.add(1)


@pytest.mark.parametrize(("packed", "allowed"), [(KB, 100), (10 * KB, 160), (MB, 1_000)])
def test_objects_need_bytes_of_the_file_beyond_those_that_are_free(
    tmp_path: Path, packed: int, allowed: int
) -> None:
    limit = limit_of(tmp_path, packed)
    limit.make("things", allowed, free=100, least_bytes=64, most=1_000)
    with pytest.raises(TraceError, match=f"more than {allowed:,} things"):
        limit.make("things", 1, free=100, least_bytes=64, most=1_000)
