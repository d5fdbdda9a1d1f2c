"""All that trying an input needs, loaded once: what is forked from a process that imported this starts at once."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import adbc_driver_sqlite.dbapi  # noqa: F401
import pandas  # noqa: F401
import pyarrow.csv
import pyarrow.dataset  # noqa: F401

import parsers
import rules
from parsers.files.base import parsers as known_parsers
from rules.findings.base import rules as known_rules
from tests.fuzzing import trial  # noqa: F401

for package in (parsers, rules):
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(each.name)
known_parsers()
known_rules()
gc.collect()
gc.freeze()  # what is there stays: collecting what an input left behind looks at nothing else
