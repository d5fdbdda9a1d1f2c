"""Ready-made questions: what people ask on the other tools, by the names they have there, and people's own ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import resources
from parsers.model.late import dataclass
from viewer.query.errors import MAX_WORD, QueryError, shortened
from viewer.tables.table import rows_of

if TYPE_CHECKING:
    from rules.analysis.analysis import Analysis

OWN = "Yours"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its text; ``needs`` are tables that must hold rows for an answer to make sense."""

    id: str
    title: str
    group: str
    sql: str
    needs: tuple[str, ...] = ()

    def missing(self, analysis: Analysis) -> str:
        """What was not recorded that it asks about; empty where it can be answered."""
        lacking = [table for table in self.needs if not len(rows_of(analysis, table))]
        return f"not recorded: {', '.join(lacking)}" if lacking else ""


@cache
def questions() -> Mapping[str, Question]:
    """Every ready-made question by its name, in the order of groups."""
    listed = tomllib.loads(resources.path("questions.toml").read_text("utf-8"))
    return {
        name: Question(name, each["title"], each["group"], each["sql"].strip(), tuple(each["needs"]))
        for name, each in listed.items()
    }


def sql_of(text: str) -> str:
    """The text of a ready-made question for its name, otherwise the text itself. Raises ``QueryError``."""
    known = questions()
    if text.strip() in known:
        return known[text.strip()].sql
    if text.replace("_", "").isalnum():
        import difflib

        near = difflib.get_close_matches(text, known, 3)
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else "Run stallscope query --list to see all of them."
        )
        raise QueryError(f"There is no question called {shortened(text, MAX_WORD)}.", hint)
    return text
