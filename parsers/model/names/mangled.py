"""C++ names as compilers mangle them: the identifiers in them, which are what a reader looks for."""

from __future__ import annotations

import re

from parsers.model.late import regex

_HASH = regex(r"::h[0-9a-f]{16}$")
_ESCAPE = regex(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$|\.\.")
_MANGLED = regex(r"_?_?ZN((?:\d.+)17h[0-9a-f]{16})E(?:\.llvm\.[0-9A-F@]+)?")
_LENGTH = regex(r"\d{1,4}")
_CHARACTERS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_LAST_CHARACTER = 0x10FFFF


# Rust's second scheme: a function, a closure or a method, inside modules of a crate
_OF_RUST = regex(r"_?_?RI?(?:N[a-zA-Z]|Ms?[0-9a-zA-Z]{0,10}_?(?=N)){1,40}C(?:s[0-9a-zA-Z]{0,20}_)?(?=\d)")
_OWN_TYPE = regex(r"N[a-z]B[0-9a-zA-Z]{0,5}_(?=\d)")  # a type of the same module, whose methods these are
_SEPARATOR = regex(r"(?<=\d)_(?=_)")  # between the length and a name that begins with an underscore
_CLOSURE = regex(r"(?:s[0-9a-zA-Z]{0,10}_)?0")


def readable_symbol(symbol: str) -> str:
    """ "<u8 as core::clone::Clone>::clone" of a symbol of Rust; any other symbol as it is."""
    if (modules := _OF_RUST.match(symbol)) is not None:
        return _rust_path(_SEPARATOR.sub("", symbol[modules.end() :])) or symbol
    mangled = _MANGLED.fullmatch(symbol)
    path = "::".join(_parts(mangled[1])) if mangled is not None else symbol
    if _HASH.search(path) is None:
        return symbol
    parts = _HASH.sub("", path).split("::")
    return "::".join(_ESCAPE.sub(_unescaped, part[1:] if part.startswith("_$") else part) for part in parts)


def _rust_path(symbol: str) -> str:
    """ "hex::grid::Cell::clip::{closure}" without what a generic one is for, which follows; empty where it is cut."""
    parts, at = _own(symbol, 0)
    if parts and (of_type := _OWN_TYPE.match(symbol, at)) is not None:
        of_its_own, at = _own(symbol, of_type.end())
        parts += of_its_own
    while (closure := _CLOSURE.match(symbol, at)) is not None:
        parts.append("{closure}")
        at = closure.end()
    return "::".join(parts)


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


_BEGINS = regex(r"_Z(N?)(?=\d)")
_IDENTIFIER = regex(r"[A-Za-z_]\w*")
# literals, repetitions, parameters
_NO_IDENTIFIER = regex(r"L[a-z]n?\d+E|[ST][0-9A-Z]*_|_GLOBAL__N_\w*?(?=\d)")
_MAX_LENGTH = 1_000  # characters that are looked at


def spelled_out(name: str) -> str:
    """ "at::native::fill<FillFunctor>" of "_ZN2at6native4fillI11FillFunctorEvT_"; other names as they are.

    What stands in brackets are all further identifiers in their order, without their structure.
    """
    begins = _BEGINS.match(name)
    if begins is None:
        return name
    text = name[:_MAX_LENGTH]
    own, at = _own(text, begins.end(), nested=bool(begins[1]))
    further: list[str] = []
    while at < len(text):
        if (passed := _NO_IDENTIFIER.match(text, at)) is not None:
            at = passed.end()
        elif (found := _identifier(text, at)) is not None:
            further += [] if found.startswith("_GLOBAL__N_") else [found]
            at += len(str(len(found))) + len(found)
        else:
            at += 1
    plain = "::".join(each for each in own if not each.startswith("_GLOBAL__N_"))
    if not plain:
        return name
    return f"{plain}<{', '.join(further)}>" if further else plain


def without_parameters(name: str) -> str:
    """ "_Z4initP5State" without "P5State"; a template as it is, since its parameters say what it computes."""
    begins = _BEGINS.match(name)
    if begins is None:
        return name
    own, end = _own(name, begins.end(), nested=bool(begins[1]))
    return name[:end] if own and not name.startswith("I", end) else name


def _own(text: str, at: int, nested: bool = True) -> tuple[list[str], int]:
    """The identifiers that qualify a function and its own, and the place behind them; what is not nested has one.

    In "_Z6update5State" the second is the type of a parameter.
    """
    own: list[str] = []
    while (nested or not own) and (found := _identifier(text, at)) is not None:
        own.append(found)
        at += len(str(len(found))) + len(found)
    return own, at


def _identifier(text: str, at: int) -> str | None:
    """The identifier before which its length stands."""
    digits = at
    while digits < len(text) and digits - at < 4 and text[digits].isdecimal() and text[digits].isascii():
        digits += 1
    if digits == at or text[at] == "0":
        return None
    found = text[digits : digits + int(text[at:digits])]
    return found if len(found) == int(text[at:digits]) and _IDENTIFIER.fullmatch(found) else None
