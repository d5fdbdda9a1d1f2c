"""Names of Rust's functions in their older mangling, which tools that know C++ alone decode by half or not at all.

The mangling is that of the compiler's ``symbol_names/legacy.rs``.
"""

from __future__ import annotations

import re

from parsers.model.late.regex import regex

_HASH = regex(r"::h[0-9a-f]{16}$")
_ESCAPE = regex(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$|\.\.")
_MANGLED = regex(r"_?_?ZN((?:\d.+)17h[0-9a-f]{16})E(?:\.llvm\.[0-9A-F@]+)?")
_LENGTH = regex(r"\d{1,4}")
_CHARACTERS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_LAST_CHARACTER = 0x10FFFF


def readable_symbol(symbol: str) -> str:
    """ "<u8 as core::clone::Clone>::clone" of a symbol of Rust; any other symbol as it is."""
    mangled = _MANGLED.fullmatch(symbol)
    path = "::".join(_parts(mangled[1])) if mangled is not None else symbol
    if _HASH.search(path) is None:
        return symbol
    parts = _HASH.sub("", path).split("::")
    return "::".join(_ESCAPE.sub(_unescaped, part[1:] if part.startswith("_$") else part) for part in parts)


def _parts(path: str) -> list[str]:
    """The parts of a path that states the length before each; none where they do not fit."""
    parts, at = [], 0
    while at < len(path):
        stated = _LENGTH.match(path, at)
        if stated is None:
            return []
        at = stated.end() + int(stated[0])
        if at > len(path):
            return []
        parts.append(path[stated.end() : at])
    return parts


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return _CHARACTERS[found[1]]
    if not found[2]:
        return "::"
    code = int(found[2], 16)
    return chr(code) if code <= _LAST_CHARACTER and chr(code).isprintable() else found[0]
