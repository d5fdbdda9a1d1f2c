"""Unpacking: everything before a damaged place comes out, and nothing grows without bound."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers.files.packed import GzipStream
from parsers.files.source import identify, open_bytes
from parsers.model import TraceError
from tests.examples import examples

# The cases lie on either side of these.
HEAD_BYTES = 64 * 1024

CONTENT = os.urandom(300_000) + b"a" * 700_000


def written(folder: Path, data: bytes) -> Path:
    path = folder / "data.gz"
    path.write_bytes(data)
    return path


def until_the_end(stream: GzipStream, size: int) -> tuple[bytes, Exception | None]:
    """What can be read, and what ended it."""
    found = b""
    try:
        while part := stream.read(size):
            found += part
    except (EOFError, gzip.BadGzipFile) as error:
        return found, error
    return found, None


@pytest.mark.parametrize("size", [1, 1000, 65_536, 1 << 20, -1])
def test_reading_in_any_size_gives_the_content(tmp_path: Path, size: int) -> None:
    content = CONTENT[-5000:] if size == 1 else CONTENT
    with GzipStream(written(tmp_path, gzip.compress(content))) as stream:
        parts = list(iter(lambda: stream.read(size), b""))
    assert b"".join(parts) == content
    assert all(len(part) == size for part in parts[:-1])


def test_several_members_are_one_content_and_what_follows_them_is_ignored(tmp_path: Path) -> None:
    data = gzip.compress(b"first ", mtime=0) + gzip.compress(b"") + gzip.compress(b"second")
    for tail in (b"", b"\0" * 600, b"garbage"):
        with GzipStream(written(tmp_path, data + tail)) as stream:
            assert stream.read() == b"first second"


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.0, 0.999))
def test_a_cut_stream_gives_what_it_holds_and_then_an_error(tmp_path: Path, share: float) -> None:
    data = gzip.compress(CONTENT, 1)
    with GzipStream(written(tmp_path, data[: int(len(data) * share)])) as stream:
        found, failure = until_the_end(stream, 50_000)
    assert share == 0 or isinstance(failure, EOFError)
    assert CONTENT.startswith(found)
    assert len(found) >= 300_000 * share - 70_000


def test_damage_gives_what_stands_before_it(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(CONTENT, 1))
    data[200_000:200_100] = b"\xff" * 100
    with GzipStream(written(tmp_path, bytes(data))) as stream:
        found, failure = until_the_end(stream, 10_000)
    assert isinstance(failure, (EOFError, gzip.BadGzipFile))
    assert CONTENT.startswith(found[:100_000])
    assert len(found) >= 100_000


def test_text_is_read_line_by_line(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(5000)]
    stream = GzipStream(written(tmp_path, gzip.compress("".join(lines).encode())))
    with io.TextIOWrapper(stream, "utf-8") as text:
        assert list(text) == lines


@pytest.mark.parametrize("form", ["", "gzip", "zstd"])
def test_a_source_knows_its_packing_and_its_head(tmp_path: Path, form: str) -> None:
    data = {"": CONTENT, "gzip": gzip.compress(CONTENT), "zstd": zstandard.compress(CONTENT)}[form]
    source = identify(written(tmp_path, data))
    assert (source.compression, source.head) == (form, CONTENT[:HEAD_BYTES])
    with open_bytes(source) as file:
        assert file.read(len(CONTENT)) == CONTENT


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b", b"\x1f\x8b\x08" + b"\xff" * 40, gzip.compress(b"", mtime=0)]
)
def test_a_file_with_nothing_in_it_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TraceError):
        identify(written(tmp_path, data))


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, b"{}")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(TraceError, match="may not read"):
        identify(path)
