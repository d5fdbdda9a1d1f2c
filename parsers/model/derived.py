"""Values that follow from a recording, or from an analysis of it: computed once, kept with what they follow from."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload


class DerivedValues(dict[object, Any]):
    """The values that were computed so far, by what computes them. Whoever holds it owns them: they go with it."""


class Holder(Protocol):
    """What values can be derived from."""

    @property
    def derived_values(self) -> DerivedValues: ...


S = TypeVar("S", bound=Holder)
T = TypeVar("T")
P = ParamSpec("P")
_UNKNOWN: Any = object()


class derived(Generic[S, T]):  # noqa: N801 - used like a function
    """Makes a function of one holder, or a property of it, compute its value once for each holder.

    The value, which may be None, must follow from the holder alone. No lock is held while it is computed: two threads
    that ask at once both compute, and both get the first result.
    """

    def __init__(self, make: Callable[[S], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __call__(self, holder: S) -> T:
        value: T = holder.derived_values.get(self, _UNKNOWN)
        if value is _UNKNOWN:
            value = holder.derived_values.setdefault(self, self._make(holder))
        return value

    @overload
    def __get__(self, holder: None, owner: type[S]) -> Self: ...
    @overload
    def __get__(self, holder: S, owner: type[S]) -> T: ...
    def __get__(self, holder: S | None, owner: type[S]) -> Self | T:
        if holder is None:
            return self
        value: T = holder.derived_values.get(self, _UNKNOWN)  # as a call of this, without one
        return self(holder) if value is _UNKNOWN else value

    def keep(self, holder: S, value: T) -> None:
        """State what the answer is, where it is known already."""
        holder.derived_values[self] = value

    def kept(self, holder: S) -> T | None:
        """The answer, if it is known already."""
        value: T | None = holder.derived_values.get(self)
        return value


def derived_by(make: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """The same for a function of one holder and of more: its value is computed once for each of these."""

    @wraps(make)
    def ask(holder: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        values, which = holder.derived_values, (make, args, *kwargs.items())
        value: T = values.get(which, _UNKNOWN)
        if value is _UNKNOWN:
            value = values.setdefault(which, make(holder, *args, **kwargs))
        return value

    return ask
