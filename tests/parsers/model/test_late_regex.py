from __future__ import annotations

import re

import pytest

from parsers.model.late import regex


def test_it_finds_what_the_compiled_expression_finds() -> None:
    late, compiled = (
        regex(r"(?P<word>[a-z]+)(\d)?", re.IGNORECASE),
        re.compile(r"(?P<word>[a-z]+)(\d)?", re.I),
    )
    text = "One2 three"
    assert [each.span() for each in late.finditer(text)] == [each.span() for each in compiled.finditer(text)]
    for each in ("match", "search", "fullmatch"):
        assert bool(getattr(late, each)(text)) is bool(getattr(compiled, each)(text))
    assert late.sub("-", text) == compiled.sub("-", text)
    assert (late.pattern, late.flags, late.groups, late.groupindex) == (
        compiled.pattern, compiled.flags, compiled.groups, compiled.groupindex,
    )  # fmt: skip


def test_bytes_are_looked_for_in_bytes() -> None:
    assert regex(rb"\d+").findall(b"1 and 22") == [b"1", b"22"]
    with pytest.raises(TypeError):
        regex(rb"\d+").search("1")  # type: ignore[arg-type]


def test_an_expression_is_compiled_when_it_is_used() -> None:
    wrong = regex("(")
    with pytest.raises(re.error):
        wrong.search("")
