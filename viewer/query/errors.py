"""What can be wrong with a question: one sentence, what to do, and which word it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from parsers.model.late import regex
from parsers.model.units import size
from viewer.query.views import VIEWS

MAX_SAID = 300  # characters: what is wrong with a long question is not said in one
MAX_WORD = 60


class QueryError(Exception):
    """A question that cannot be answered; ``word`` is the one it is about, at ``place`` of the text (-1: nowhere)."""

    def __init__(self, problem: str, hint: str = "", word: str = "", place: int = -1) -> None:
        super().__init__(f"{problem} {hint}".strip())
        self.problem = problem
        self.hint = hint
        self.word = word
        self.place = place


class NoDatabase(QueryError):
    """DuckDB is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Questions in SQL need DuckDB, which is not installed.",
            "Install it with: pip install 'stallscope[sql]'.",
        )


class LimitReached(QueryError):
    """A question that costs more than it may; ``option`` raises the limit on the command line."""

    option = ""

    def __init__(self, limit: str) -> None:
        super().__init__(limit, "Narrow it, or add a LIMIT.")


class TimeReached(LimitReached):
    """It takes too long."""

    option = "--time-limit"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"This takes longer than the limit of {seconds:g} s for a question.")


class MemoryReached(LimitReached):
    """It needs too much memory; without ``allowed``, in bytes, no number is said."""

    option = "--memory-limit"

    def __init__(self, allowed: int = 0) -> None:
        more = f"the {size(allowed)} that a question may use" if allowed else "a question may use"
        super().__init__(f"This needs more memory than {more}.")


_ABOUT = (
    (regex(r'Referenced column "([^"]{1,200})"'), "column"),
    (regex(r'does not have a column named "([^"]{1,200})"'), "column"),
    (regex(r'Referenced table "([^"]{1,200})"'), "table"),
    (regex(r"Table with name (\S{1,200}) does not exist"), "table"),
    (regex(r"Function with name (\S{1,200}) does not exist"), "function"),
    (regex(r'at or near "([^"]{1,200})"'), "word"),
)
_LINE = regex(r"\n\nLINE \d+:", re.DOTALL)
_FORBIDDEN = ("disabled by configuration", "configuration has been locked", "external extensions is disabled")
_PROBLEMS = {
    "column": "There is no column {word}.",
    "table": "There is no table {word}.",
    "function": "There is no function {word}.",
    "word": "{word} is not understood here.",
}


def explained(message: str, sql: str, tables: Sequence[str]) -> QueryError:
    """What DuckDB says as one sentence with the nearest name that there is."""
    if any(word in message for word in _FORBIDDEN):
        return QueryError("A question never touches files, settings or the network.", "Use only the tables.")
    if message.startswith("Out of Memory"):
        return MemoryReached()
    for pattern, kind in _ABOUT:
        found = pattern.search(message)
        if found:
            word = found[1]
            import difflib

            names = {"table": list(tables), "column": _columns_near(sql)}.get(kind, [])
            near = difflib.get_close_matches(word.lower(), names, 3, 0.6)
            hint = f"Did you mean {' or '.join(near)}?" if near else ""
            said = _PROBLEMS[kind].format(word=shortened(word, MAX_WORD))
            return QueryError(said, hint, word, _place(word, sql))
    first = _LINE.split(message)[0].split("\n")[0]
    problem = shortened(first.split(": ", 1)[-1].strip(), MAX_SAID)
    return QueryError(problem if problem.endswith((".", "!", "?")) else f"{problem}.")


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _columns_near(sql: str) -> list[str]:
    """The columns of the tables that a question names."""
    from viewer.tables.table import described, row_tables, summaries

    words = set(re.findall(r"[a-z_]\w*", sql.lower()))
    known = [name for name in (*row_tables(), *summaries()) if name in words]
    found = [column.name for name in known for column in described(name)]
    for name in words & VIEWS.keys():
        found += VIEWS[name].columns
    return sorted(set(found))


def _place(word: str, sql: str) -> int:
    """Where a word stands in the text, as a whole word; -1 where it does not."""
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sql, re.IGNORECASE)
    return found.start() if found else -1
