"""Names of the calls that CUPTI numbers: of nvprof's databases, which hold the numbers alone."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache

import resources


@cache
def calls_of(interface: str) -> Mapping[int, str]:
    """The calls of "RUNTIME" or "DRIVER" by number; those that are not listed keep their number."""
    with resources.path("cupti_calls.toml").open("rb") as file:
        return {int(number): name for number, name in tomllib.load(file)[interface].items()}
