"""What Python makes while it loads a module, made when it is first needed: methods of classes, regular expressions."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import cache, cached_property
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

T = TypeVar("T")
_OF_THE_CLASS = ("ClassVar", "typing.ClassVar")
_OF_NO_SLOTS = frozenset({"__dict__", "__weakref__"})
WORTH_COMPILING = 16  # objects, after which it pays to compile how one is made


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
        late = _Late(cls, frozen)
        methods: dict[str, Any] = {"__init__": _first_init(late), "__repr__": _shown}
        if eq:
            methods |= {"__eq__": _is_equal, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if frozen and slots:
            methods |= {"__getstate__": _state, "__setstate__": _take_state}
        own = vars(cls)
        added = {name: method for name, method in methods.items() if name not in own}
        added |= {"__dataclass_fields__": late, "__match_args__": own.get("__match_args__", late.match_args)}
        late.cls = _with_slots(cls, late, added, weakref_slot) if slots else _with(cls, late, added)
        return late.cls

    return make if cls is None else make(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: TID251 - what the type checker takes it for
else:
    dataclass = _dataclass


class _Late:
    """In place of the fields of a class: the library makes them when somebody asks."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self.cls = cls
        self.frozen = frozen
        self.stated = {
            name: (kind, vars(cls).get(name, dataclasses.MISSING))
            for name, kind in inspect.get_annotations(cls).items()
            if not str(kind).startswith(_OF_THE_CLASS)
        }

    def __get__(self, _: object, __: object) -> dict[str, dataclasses.Field[Any]]:
        name = self.cls.__name__
        # With a text the library need not look up how a class without one is called.
        body: dict[str, Any] = {"__annotations__": {}, "__doc__": name, "__module__": self.cls.__module__}
        for field, (kind, usual) in self.stated.items():
            body["__annotations__"][field] = kind
            if usual is not dataclasses.MISSING:
                body[field] = usual
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type(name, (), body))  # noqa: TID251
        made.__dataclass_params__.frozen = self.frozen  # said beforehand, it would compile two methods
        fields: dict[str, dataclasses.Field[Any]] = {}
        for base in self.cls.__mro__[:0:-1]:
            fields |= getattr(base, "__dataclass_fields__", {})
        fields |= made.__dataclass_fields__
        self.cls.__dataclass_fields__ = fields
        self.cls.__dataclass_params__ = made.__dataclass_params__
        return fields

    @cached_property
    def usual(self) -> dict[str, _Usual]:
        """Of each field, in the order of ``__init__``."""
        found: dict[str, _Usual] = {}
        for base in self.cls.__mro__[:0:-1]:
            stated = vars(base).get("__dataclass_fields__", {})
            inherited = stated.usual if isinstance(stated, _Late) else stated
            found |= {name: _usual(each) for name, each in inherited.items()}
        return found | {name: _usual(each) for name, (_, each) in self.stated.items()}

    @property
    def match_args(self) -> tuple[str, ...]:
        return tuple(name for name, usual in self.usual.items() if usual.init)


class _Usual(NamedTuple):
    """What a field is without being given, or how that is made; ``MISSING`` where it is not."""

    init: bool
    value: Any
    factory: Any = dataclasses.MISSING


def _usual(stated: Any) -> _Usual:
    if isinstance(stated, dataclasses.Field):
        return _Usual(stated.init, stated.default, stated.default_factory)
    return stated if isinstance(stated, _Usual) else _Usual(True, stated)


def _first_init(late: _Late) -> Callable[..., None]:
    made = 0

    def __init__(self: object, *args: Any, **named: Any) -> None:  # noqa: N807
        nonlocal made
        made += 1
        if made <= WORTH_COMPILING and _filled(late, self, args, named):
            return
        late.cls.__init__ = _initializer(late)
        late.cls.__init__(self, *args, **named)

    return __init__


def _filled(late: _Late, new: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Do what ``__init__`` does, slowly but at once; False, with nothing done, where it has something to refuse."""
    wanted = {name: usual for name, usual in late.usual.items() if usual.init}
    given = dict(zip(wanted, args, strict=False)) | named
    needed = {name for name, usual in wanted.items() if usual.value is usual.factory is dataclasses.MISSING}
    if len(given) != len(args) + len(named) or not needed <= given.keys() <= wanted.keys():
        return False
    put = object.__setattr__ if late.cls.__setattr__ is _refuse else setattr
    for name, usual in late.usual.items():
        if name in given:
            put(new, name, given[name])
        elif usual.factory is not dataclasses.MISSING:
            put(new, name, usual.factory())
        elif usual.value is not dataclasses.MISSING:
            put(new, name, usual.value)
    if hasattr(late.cls, "__post_init__"):
        new.__post_init__()
    return True


def _with(cls: Any, late: _Late, added: dict[str, Any]) -> Any:
    for name, (_, usual) in late.stated.items():
        if isinstance(usual, dataclasses.Field):
            if usual.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, usual.default)
    for name, value in added.items():
        setattr(cls, name, value)
    return cls


def _with_slots(cls: Any, late: _Late, added: dict[str, Any], weakref_slot: bool) -> Any:
    """A second class, as the library makes it: the first one has no slots, and its names stand in their way."""
    names = late.usual
    held = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    kept = {
        name: value for name, value in vars(cls).items() if name not in names and name not in _OF_NO_SLOTS
    }
    slots = [*names, "__weakref__"] if weakref_slot else names
    made = type(cls)(
        cls.__name__,
        cls.__bases__,
        {**kept, **added, "__slots__": tuple(name for name in slots if name not in held)},
    )
    made.__qualname__ = cls.__qualname__
    return made


def _initializer(late: _Late) -> Callable[..., None]:
    """Compiled from the names of the fields, as the library does it."""
    cls = late.cls
    known: dict[str, Any] = {"_set": object.__setattr__, "_unset": object()}
    is_frozen = cls.__setattr__ is _refuse
    parameters, lines = ["self"], ["pass"]
    for name, (init, default, factory) in late.usual.items():
        usual, value = f"_usual_{name}", name
        if factory is not dataclasses.MISSING:
            known[usual] = factory
            parameters += [f"{name}=_unset"] if init else []
            value = f"{usual}() if {name} is _unset else {name}" if init else f"{usual}()"
        elif default is not dataclasses.MISSING:
            known[usual] = default
            parameters += [f"{name}={usual}"] if init else []
            value = name if init else usual
        elif init:
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


class LateRegex:
    """Has what ``re.Pattern`` has."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._stated = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._stated), name)
        setattr(self, name, found)
        return found

    def _compiled(self, name: str) -> Any:
        return vars(self).get(name) or self.__getattr__(name)

    # handed over as a function, each compiles nothing before it is called

    def match(self, *said: Any) -> Any:
        return self._compiled("match")(*said)

    def search(self, *said: Any) -> Any:
        return self._compiled("search")(*said)

    def fullmatch(self, *said: Any) -> Any:
        return self._compiled("fullmatch")(*said)


if TYPE_CHECKING:
    regex = re.compile
else:
    regex = LateRegex
