"""One module for each rule, named after the fault it finds; each registers itself."""

import importlib
import pkgutil
from functools import cache


@cache
def import_all() -> None:
    """Import every module of this package, so that all rules and their thresholds are registered."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
