"""Packages whose modules register what they hold."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import cache


@cache
def modules_of(package: str) -> tuple[str, ...]:
    """The names of the modules right inside a package; only the first call looks into its folder."""
    return tuple(each.name for each in pkgutil.iter_modules(importlib.import_module(package).__path__))


def loading(package: str, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """Import the wanted modules of a package, one for each name that is asked for."""
    for name in filter(wanted, modules_of(package)):
        importlib.import_module(f"{package}.{name}")
        yield name


@cache
def load_all(package: str) -> None:
    """Import every module of a package and of the packages inside it, once."""
    for name in loading(package):
        if hasattr(sys.modules[f"{package}.{name}"], "__path__"):
            load_all(f"{package}.{name}")
