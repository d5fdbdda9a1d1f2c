"""Tables that tools print for people, with a rule of dashes under their header, as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from parsers.model.late import regex

_RULE = regex(r"^ ?-{3,}(?:  +-{3,})+ *$")
_BOX = regex(r"^\+(?:-{3,}\+){2,} *$")  # nsys stats --format table
_RULES_OF_BOX = 3  # above and below its header, and below its rows
_TIME = regex(r"(-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]\d\d)?)(ns|us|ms|s)")
_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
# in groups of three digits, or of four, as is the custom in China and Taiwan
_NUMBER = regex(r"(?:\d{1,3}(?:,\d{3})+|\d{1,4}(?:,\d{4})+)(?:\.\d+)?")
_NUMBER_WITH_COMMA = regex(r"-?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
# numbers that can only be read one way: with decimals that are no group of three digits, or with several groups
_ONLY_WITH_COMMA = regex(r"-?(?:(?:\d{1,3}(?:\.\d{3})+|0),\d+|\d+,(?:\d\d?|\d{4,})|\d{1,3}(?:\.\d{3}){2,})")
_ONLY_WITH_POINT = regex(
    r"-?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,4}(?:,\d{4})+|0)\.\d+|\d+\.(?:\d\d?|\d{4,})|"
    r"\d{1,3}(?:,\d{3}){2,}|\d{1,4}(?:,\d{4}){2,})"
)


def has_rule(text: str) -> bool:
    """Whether a line of dashes under a header says where columns are."""
    return "---" in text and any(_RULE.match(line) or _BOX.match(line) for line in text.splitlines())


def as_csv(lines: Sequence[str]) -> Iterator[str]:
    """The lines; those of a printed table as CSV, up to an empty line or a rule that ends it, without the rules.

    Numbers are read as the table's own place writes them: where some can only be read with a decimal comma, and none
    with a point, all have commas; where nothing tells, they are as in the table before.
    """
    places: list[slice] = []
    header, rules, commas = -1, 0, False
    for number, line in enumerate(lines):
        if _BOX.match(line):
            edges = [at for at, each in enumerate(line) if each == "+"]
            rules = rules % _RULES_OF_BOX + 1
            places = (
                [slice(start + 1, end) for start, end in pairwise(edges)] if rules < _RULES_OF_BOX else []
            )
            if not places:
                yield ""
            elif rules > 1:
                commas = _has_commas(lines, number + 1, places, commas)
            continue
        if rules % _RULES_OF_BOX and not line.startswith("|"):
            rules, places = 0, []
        if _RULE.match(line):
            if places and number != header + 1:
                places = []
                yield ""
            continue
        if not places and _is_header(lines, number):
            edges = [found.start() for found in re.finditer("-+", lines[number + 1])]
            places = [slice(start, end) for start, end in zip(edges, [*edges[1:], None], strict=True)]
            header, commas = number, _has_commas(lines, number + 2, places, commas)
        elif not line.strip():
            places = []
        yield csv_row(_cell(line[place].strip(), commas) for place in places) if places else line


def _has_commas(lines: Sequence[str], first: int, places: Sequence[slice], before: bool) -> bool:
    """Whether the rows from this line on have decimal commas, up to an empty line or a rule.

    As ``before`` where none tells.
    """
    has_comma = False
    for line in lines[first:]:
        if not line.strip() or _RULE.match(line) or _BOX.match(line):
            break
        cells = [line[place].strip() for place in places]
        if any(map(_ONLY_WITH_POINT.fullmatch, cells)):
            return False
        has_comma = has_comma or any(map(_ONLY_WITH_COMMA.fullmatch, cells))
    return has_comma or before


def _is_header(lines: Sequence[str], number: int) -> bool:
    """Whether a rule follows a line, and is not the one above the next line's table."""
    below = lines[number + 1 : number + 4]
    return bool(below) and _RULE.match(below[0]) is not None and below[0] not in below[2:]


def in_us(time: str) -> str:
    """Microseconds of "9.6536ms"; empty for other cells."""
    found = _TIME.fullmatch(time)
    return f"{float(found[1]) * _US[found[2]]:.9g}" if found else ""


def csv_row(cells: Iterable[str]) -> str:
    """Cells as one line of CSV, without its end."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(list(cells))
    return row.getvalue()


def _cell(text: str, commas: bool) -> str:
    if commas and _NUMBER_WITH_COMMA.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(",", "") if _NUMBER.fullmatch(text) else text
