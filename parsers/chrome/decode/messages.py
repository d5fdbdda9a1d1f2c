"""What collectives carry: element sizes, message sizes, and names in one spelling."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from parsers.model.names.collectives import collective_of

_OF_SIZE = {
    16: ("complexdouble",),
    8: ("double", "float64", "long", "longint", "int64", "complexfloat"),
    4: ("float", "float32", "int", "int32"),
    2: ("half", "float16", "bfloat16", "short", "int16"),
    1: ("char", "byte", "bool", "unsignedchar", "signedchar", "int8", "uint8"),
}
_SIZES = {name: size for size, names in _OF_SIZE.items() for name in names}


@lru_cache(maxsize=1024)
def element_bytes(dtype: str) -> int | None:
    """Bytes of one element of a dtype as PyTorch writes it: "BFloat16", "c10::BFloat16", "long int"."""
    name = dtype.lower().removeprefix("c10::").removeprefix("at::").replace(" ", "")
    return 1 if name.startswith("float8") else _SIZES.get(name)


def message_bytes(elements: Any, dtype: Any) -> int | None:
    """Bytes of a message; None where either is not stated."""
    size = element_bytes(dtype) if isinstance(dtype, str) else None
    if size is None or elements is None:
        return None
    try:
        return int(elements) * size
    except (TypeError, ValueError, OverflowError):
        return None


def collective_name(text: str) -> str:
    """A collective in the spelling of the model: "_allgather_base" is "allgather"."""
    return collective_of(text) or text.lower()


def tensor_bytes(dims: str, types: str) -> int | None:
    """Bytes of all tensors among an operator's inputs, from its recorded shapes and types (JSON texts)."""
    try:
        shapes, dtypes = msgspec.json.decode(dims), msgspec.json.decode(types)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not (isinstance(shapes, list) and isinstance(dtypes, list)):
        return None
    total = 0
    for shape, dtype in zip(shapes, dtypes, strict=False):
        size = element_bytes(dtype) if isinstance(dtype, str) else None
        if size is None or not isinstance(shape, list) or not shape:
            continue
        if not all(isinstance(side, int) and side >= 0 for side in shape):
            continue
        count = 1
        for side in shape:
            count *= side
        total += count * size
    return total or None
