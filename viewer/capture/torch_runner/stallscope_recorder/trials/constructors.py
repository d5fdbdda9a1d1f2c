"""Arguments with which the script's objects are made, changed on their way into the constructor."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict

from .catalogue import START, Change
from .program import Program


class Construction(Change):
    """A start that changes keyword arguments of a class of torch."""

    level = START
    usual = False

    def built(self) -> Any:
        """The class whose objects are made in another way."""
        raise NotImplementedError

    def changed(self, arguments: Dict[str, Any]) -> None:
        """Change the arguments, which are named as the constructor names them."""

    def on(self, program: Program) -> None:
        owner = self.built()
        self.put(owner, "__init__", with_arguments(owner.__init__, self.changed))


def with_arguments(original: Callable[..., Any], change: Callable[[Dict[str, Any]], None]) -> Any:
    """The same constructor, called with what ``change`` makes of its arguments."""
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            original(self, *args, **kwargs)
            return
        named = dict(bound.arguments)
        named.pop(next(iter(signature.parameters)), None)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                named.update(named.pop(name, {}))
        change(named)
        original(self, **named)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
