"""Views beside the tables: short names, the tables of Perfetto's trace processor, and functions for units.

Perfetto's tables are described at https://perfetto.dev/docs/analysis/sql-tables; here they hold what the model holds.
"""

from __future__ import annotations

import tomllib

import resources
from parsers.model.late import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view over other tables: what one row is, its columns, and the query that it is."""

    about: str
    columns: tuple[str, ...]
    sql: str


def _view(about: str, columns: str, sql: str) -> View:
    return View(about, tuple(columns.split()), sql)


SHORTER = {"calls": "api_calls"}  # view -> the table that it is
with resources.path("views.toml").open("rb") as _file:
    VIEWS = {name: _view(**view) for name, view in tomllib.load(_file).items()}
FUNCTIONS: dict[str, View] = {
    name: _view(about, "", f"CREATE TEMP MACRO {name}{body}")
    for name, about, body in (
        ("us", "microseconds as ns: us(4)", "(count) AS CAST(round(count * 1e3) AS BIGINT)"),
        ("ms", "milliseconds as ns: ms(1.5)", "(count) AS CAST(round(count * 1e6) AS BIGINT)"),
        ("seconds", "seconds as ns: seconds(2)", "(count) AS CAST(round(count * 1e9) AS BIGINT)"),
        (
            "extract_arg",
            "Perfetto: one argument by its key: extract_arg(arg_set_id, 'grid')",
            # what is handed over may be called like a column of args: inside, columns have names of their own
            "(wanted_set, wanted_key) AS (SELECT any_value(value_) FROM (SELECT arg_set_id AS set_, "
            "CAST(key AS VARCHAR) AS key_, display_value AS value_ FROM args) "
            "WHERE set_ = wanted_set AND key_ = wanted_key)",
        ),
    )
}
