"""The conditions of a question that are joined by AND, each with its place in the text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: its text, and where that stands in the question, in characters."""

    text: str
    begin: int
    end: int

    def without(self, sql: str) -> str:
        """The question with this condition always met."""
        return f"{sql[: self.begin]} true {sql[self.end :]}"


def conditions_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Condition]:
    """The conditions of the outermost WHERE; none where there are fewer than two joined by AND."""
    told = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    tree = json.loads(told)
    if tree.get("error"):
        return []
    where = tree["statements"][0]["node"].get("where_clause") or {}
    if where.get("type") != "CONJUNCTION_AND":
        return []
    found = [_condition(sql, each) for each in where["children"]]
    return [each for each in found if each is not None]


def _condition(sql: str, node: dict[str, Any]) -> Condition | None:
    written = sql.encode()
    begin, length = node.get("query_location"), node.get("query_location_length")
    if begin is None or not length:
        return None
    before, text = (
        written[:begin].decode(errors="ignore"),
        written[begin : begin + length].decode(errors="ignore"),
    )
    return Condition(text, len(before), len(before) + len(text))
