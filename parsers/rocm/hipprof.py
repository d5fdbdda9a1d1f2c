"""hipprof's databases: rocprof's tables, in which numbers stand for the names of kernels, calls and copies.

The names of kernels are in a table of their own, those of calls before the arguments, and copies have the numbers of
OpenCL's commands (https://registry.khronos.org/OpenCL/api/2.1/cl.h), as AMD's runtime does.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping

import numpy as np

from parsers.model import F64, I64
from parsers.model.late import dataclass
from parsers.rocm.columns import DatabaseRows
from parsers.sqlite.database import Database
from parsers.sqlite.guarded import quote

STRINGS = "STR_TABLE"
FILL = "FillBuffer"
_COPIES = {4595: "DeviceToHost", 4596: "HostToDevice", 4597: "DeviceToDevice", 4615: FILL}
_ANY_PROCESS = -1
_MAX_CALL = 80
_NAME = frozenset({"name", "kind"})


@dataclass(slots=True)
class NamedRows:
    """Rows of a table with the names that its numbers stand for, by the number of their process."""

    rows: DatabaseRows
    names: Mapping[tuple[int, str], str]
    header: tuple[str, ...] = ()
    length: int = 0

    def __post_init__(self) -> None:
        self.header, self.length = self.rows.header, self.rows.length

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def integers(self, *names: str) -> I64:
        return self.rows.integers(*names)

    def numbers(self, name: str) -> F64:
        return self.rows.numbers(name)

    def texts(self, *names: str) -> tuple[list[str], I64]:
        texts, which = self.rows.texts(*names)
        if not self.names or _NAME.isdisjoint(names):
            return texts, which
        processes, process = np.unique(self.rows.integers("pid"), return_inverse=True)
        pairs, of_row = np.unique(process * len(texts) + which, return_inverse=True)
        named: list[str] = []
        for process_at, text_at in zip(
            *(each.tolist() for each in np.divmod(pairs, len(texts))), strict=True
        ):
            text = texts[text_at]
            anywhere = self.names.get((_ANY_PROCESS, text), text)
            named.append(self.names.get((int(processes[process_at]), text), anywhere))
        return named or [""], of_row.astype(np.int64)


def names_of(database: Database, table: str) -> Mapping[tuple[int, str], str]:
    """What the numbers in a table of hipprof stand for; nothing in a database of another recorder."""
    if database.table(STRINGS) is None:
        return {}
    if table == "COPY":
        return {(_ANY_PROCESS, str(number)): name for number, name in _COPIES.items()}
    called = f"{_ANY_PROCESS}, Name, substr(min(args), 1, {_MAX_CALL})"
    query = (
        f"SELECT PID, STR_ID, STR_NAME FROM {quote(STRINGS)}"
        if table == "OPS"
        else f"SELECT {called} FROM {quote(table)} GROUP BY Name"
    )
    found: dict[tuple[int, str], str] = {}
    with contextlib.suppress(sqlite3.Error):
        for process, number, name in database.stream(query):
            if isinstance(process, int) and isinstance(name, str) and name:
                found[process, str(number)] = name if table == "OPS" else name.partition("(")[0]
    return found
