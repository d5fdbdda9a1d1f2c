"""One module for each rule, named after the fault it finds; each registers itself."""

import importlib
import pkgutil
from functools import cache

_OF_COUNTERS = "kernel_"


@cache
def import_all(counters: bool = True) -> None:
    """Import every module of this package, so that all rules and their thresholds are registered.

    Rules about hardware ``counters`` of single launches may be left out: few recordings have any.
    """
    for module in pkgutil.iter_modules(__path__):
        if counters or not module.name.startswith(_OF_COUNTERS):
            importlib.import_module(f"{__name__}.{module.name}")


@cache
def counter_rules() -> tuple[str, ...]:
    """The ids of the rules about hardware counters: as their modules are called."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.replace("_", "-") for name in names if name.startswith(_OF_COUNTERS))
