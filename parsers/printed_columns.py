"""Tables printed for people, with columns under one another: their lines as comma-separated ones."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

_RULE = re.compile(r"^ ?-{3,}(?:  +-{3,})+ *$")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def has_rule(text: str) -> bool:
    """Whether a line of dashes under a header says where columns are."""
    return any(map(_RULE.match, text.splitlines()))


def as_csv(lines: Sequence[str]) -> Iterator[str]:
    """The lines; those of a table with a rule under its header as CSV, up to the next empty line, without the rule."""
    places: list[slice] = []
    for number, line in enumerate(lines):
        if _RULE.match(line):
            continue
        if number + 1 < len(lines) and _RULE.match(lines[number + 1]):
            edges = [found.start() for found in re.finditer("-+", lines[number + 1])]
            places = [slice(start, end) for start, end in zip(edges, [*edges[1:], None], strict=True)]
        elif not line.strip():
            places = []
        yield _joined(line, places) if places else line


def _joined(line: str, places: Sequence[slice]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow([_cell(line[place].strip()) for place in places])
    return row.getvalue()


def _cell(text: str) -> str:
    return text.replace(",", "") if _NUMBER.fullmatch(text) else text
