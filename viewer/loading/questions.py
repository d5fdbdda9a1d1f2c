"""How the process that holds a recording answers questions: functions that are called there, by whoever asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever asks loads no database
    from parsers.model import Progress
    from rules.analysis.analysis import Analysis

ENDINGS = (".csv", ".json", ".parquet")  # of files that an answer can be written to


def first_rows(analysis: Analysis, progress: Progress, sql: str) -> Iterator[bytes]:
    """The first rows with sums over all, for ``viewer.query.result.unpacked``."""
    from viewer.query.database import MAX_ROWS, database_of
    from viewer.query.questions import sql_of
    from viewer.query.result import packed

    yield packed(database_of(analysis).run(sql_of(sql), MAX_ROWS, progress))


def costliest_condition(analysis: Analysis, progress: Progress, sql: str) -> Iterator[bytes]:
    """What ``Database.costliest_condition`` says, as JSON."""
    from viewer.query.database import database_of
    from viewer.query.questions import sql_of

    yield json.dumps(database_of(analysis).costliest_condition(sql_of(sql), progress)).encode()


def all_rows(analysis: Analysis, progress: Progress, sql: str, ending: str) -> Iterator[bytes]:
    """The whole answer as the content of a file; lists and structures as such where the file can hold them."""
    from viewer.query.database import database_of
    from viewer.query.questions import sql_of
    from viewer.query.result import in_text
    from viewer.reports.conversion.tables import pieces_of

    frame = database_of(analysis).run(sql_of(sql), None, progress).frame
    return pieces_of(frame if ending == ".json" else in_text(frame), ending)


def how_many(analysis: Analysis, progress: Progress, name: str) -> Iterator[bytes]:
    """How many rows a ready-made question gives, as JSON; what was not recorded for it, where it gives none."""
    from viewer.query.database import database_of
    from viewer.query.questions import questions

    question = questions()[name]
    missing = question.missing(analysis)
    count = 0 if missing else database_of(analysis).count(question.sql, progress)
    yield json.dumps({"missing": missing, "rows": count}).encode()
