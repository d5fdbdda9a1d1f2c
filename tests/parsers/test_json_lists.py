"""Which lists of a JSON file are cut into pieces: those whose key stands before them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from parsers.files.base import Source
from parsers.files.unpacking_limit import LimitedStream
from parsers.json_lists import JsonLists
from parsers.model import Progress


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"nodes":[1,2]}', [b"[1,2]"]),
        (b'{"nodes" \n:\t [1,2]}', [b"[1,2]"]),
        (b'{"other":[1,2]}', []),
        (b'{"a \\"nodes":[1,2]}', []),
        (b'{"nodes",[1,2]}', []),
        (b"{nodes:[1,2]}", []),
        (b'nodes":[1,2]', []),
        (b'{"nodes":[1,2],"other":[[3]],"nodes":[[4]]}', [b"[1,2]", b"[[4]]"]),
    ],
)
def test_a_list_is_known_by_the_key_before_it(text: bytes, found: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "lists.json"
    path.write_bytes(text)
    stream = LimitedStream(io.BytesIO(text), Source(path, text), Progress(), "reading")
    lists = JsonLists(stream, {"nodes"}, deepest=2, owner_depth=9)
    assert [piece.text for piece in lists.pieces()] == found
