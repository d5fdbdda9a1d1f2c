"""The standard library's ``dataclass``, but a class gets its methods when the first object of it needs them.

The library compiles up to six methods for each class where that is defined: 0.6 ms each in Python 3.11, a third of all
that a command takes for a small recording, which makes objects of fewer than half of the classes it loads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


def _dataclass(
    cls: type[T] | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Any:
    """What of the library's decorator is in use, with the same meaning."""

    def make(cls: type[T]) -> Any:
        own = frozenset(vars(cls))
        made = _fields_of(cls, slots, weakref_slot)
        methods: dict[str, Any] = {"__init__": _made_when_called(made), "__repr__": _shown}
        if eq:
            methods |= {"__eq__": _is_equal, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if frozen and slots:
            methods |= {"__getstate__": _state, "__setstate__": _take_state}
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    return make if cls is None else make(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: TID251 - what the type checker takes it for
else:
    dataclass = _dataclass


def _fields_of(cls: type[T], slots: bool, weakref_slot: bool) -> Any:
    kind = dataclasses.dataclass(  # noqa: TID251
        init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
    )
    return kind(cls)


def _made_when_called(cls: Any) -> Callable[..., None]:
    def __init__(self: object, *args: Any, **named: Any) -> None:  # noqa: N807
        cls.__init__ = _initializer(cls)
        cls.__init__(self, *args, **named)

    return __init__


def _initializer(cls: Any) -> Callable[..., None]:
    """Compiled from the names of the fields, as the library does it."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_unset": object()}
    is_frozen = cls.__setattr__ is _refuse
    parameters, lines = ["self"], ["pass"]
    for field in dataclasses.fields(cls):
        name, usual, value = field.name, f"_usual_{field.name}", field.name
        if field.default_factory is not dataclasses.MISSING:
            known[usual] = field.default_factory
            parameters += [f"{name}=_unset"] if field.init else []
            value = f"{usual}() if {name} is _unset else {name}" if field.init else f"{usual}()"
        elif field.default is not dataclasses.MISSING:
            known[usual] = field.default
            parameters += [f"{name}={usual}"] if field.init else []
            value = name if field.init else usual
        elif field.init:
            parameters.append(name)
        else:
            continue
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


@cache
def _compared(cls: Any) -> Callable[[object], object]:
    return attrgetter("__class__", *(field.name for field in dataclasses.fields(cls) if field.compare))


def _is_equal(self: Any, other: object) -> Any:
    values = _compared(self.__class__)
    return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self.__class__)(self))


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _take_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
