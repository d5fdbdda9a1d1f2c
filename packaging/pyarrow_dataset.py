"""Stands in for pyarrow.dataset in the frozen program.

The SQLite driver imports that module to recognise data that somebody writes through it. This program only reads, and
the real one brings the whole query engine of Arrow along.
"""

from __future__ import annotations


class Dataset:
    """Never made."""


class Scanner:
    """Never made."""
