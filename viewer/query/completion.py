"""What can be typed next in a question: tables, their columns with units, functions, names of this recording."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

from parsers.model import Trace
from parsers.model.late import dataclass, regex
from viewer.query.views import FUNCTIONS, SHORTER, VIEWS
from viewer.tables.table import Column, described, row_tables, summaries

MAX_SUGGESTIONS = 40
_LETTERS = string.ascii_letters + string.digits + "_"
_NAMED = regex(r"\b(?:from|join)\s+(\w+)(?:\s+as)?(?:\s+(\w+))?", re.IGNORECASE)
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "JOIN", "LEFT JOIN", "ON", "USING",
    "AS", "AND", "OR", "NOT", "IN", "IS NULL", "BETWEEN", "LIKE", "DESC", "ASC", "DISTINCT", "WITH", "CASE",
    "WHEN", "THEN", "ELSE", "END", "OVER", "PARTITION BY", "UNION ALL",
)  # fmt: skip
_OF_SQL = {
    "count": "how many",
    "sum": "sum",
    "avg": "the mean",
    "min": "the least",
    "max": "the greatest",
    "median": "median",
    "arg_max": "the first where the second is greatest",
    "any_value": "one of them",
    "coalesce": "the first that is not missing",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to type: what it is ("table", a unit, "function", "name", "word"), and what it means."""

    text: str
    sort: str
    about: str


def candidates(sql: str, place: int, trace: Trace | None = None) -> tuple[int, list[Candidate]]:
    """Where the word at ``place`` begins, and what it can become; nothing where no letter of it is typed."""
    before = sql[:place]
    quote = before.rfind("'")
    if before.count("'") % 2 and trace is not None:
        return quote + 1, list(_names(trace, before[quote + 1 :]))
    typed = _last_word(before)
    begin = place - len(typed)
    if owner := _last_word(before[: begin - 1]) if before[:begin].endswith(".") else "":
        return begin, _starting(_columns(_table_of(owner, sql)), typed)
    if not typed:
        return begin, []
    tables = {name.lower() for name, _ in _NAMED.findall(sql)}
    known = [each for name in sorted(tables) for each in _columns(name)]
    known += [Candidate(name, "table", about) for name, about in table_names().items()]
    known += [Candidate(name, "function", view.about) for name, view in FUNCTIONS.items()]
    known += [Candidate(name, "function", about) for name, about in _OF_SQL.items()]
    known += [Candidate(word, "word", "") for word in KEYWORDS]
    distinct = {each.text: each for each in reversed(known)}
    return begin, _starting((distinct[text] for text in dict.fromkeys(each.text for each in known)), typed)


def _last_word(text: str) -> str:
    return text[len(text.rstrip(_LETTERS)) :]


def table_names() -> dict[str, str]:
    """Every table and view with what one row of it is."""
    found = {name: table.about for name, table in row_tables().items()}
    found |= {name: summary.about for name, summary in summaries().items()}
    return found | {name: view.about for name, view in VIEWS.items()}


def unit_words(column: Column) -> str:
    """What a column holds: its unit, or that it is a text or a number."""
    return {"ns": "time", "B": "size", "B/s": "rate", "share": "share"}.get(column.unit, "")


def columns_of(table: str) -> tuple[Column, ...]:
    """The columns of a table or view; those of Perfetto's views mean what they mean there."""
    table = SHORTER.get(table, table)
    if table in VIEWS:
        return tuple(Column(name, "") for name in VIEWS[table].columns)
    return described(table) if table in row_tables() or table in summaries() else ()


def _columns(table: str) -> list[Candidate]:
    return [Candidate(each.name, unit_words(each), each.about) for each in columns_of(table)]


def _table_of(word: str, sql: str) -> str:
    """The table that a word before a dot stands for."""
    for name, alias in _NAMED.findall(sql):
        if word.lower() in (alias.lower(), name.lower()):
            return str(name).lower()
    return word.lower()


def _starting(known: Iterable[Candidate], typed: str) -> list[Candidate]:
    small = typed.lower()
    return [each for each in known if each.text.lower().startswith(small) and each.text != typed][
        :MAX_SUGGESTIONS
    ]


def _names(trace: Trace, typed: str) -> Iterable[Candidate]:
    small, found = typed.lower(), 0
    for text in trace.strings:
        if small in text.lower() and "'" not in text and text:
            yield Candidate(text, "name", "in this recording")
            found += 1
            if found == MAX_SUGGESTIONS:
                return
