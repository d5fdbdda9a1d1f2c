"""Tables that benchmarks print as they become known, and that docs/benchmarks.md holds as they were printed."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


class Table:
    """A table in Markdown below a line that says when it was measured; ``name`` is what the page calls it."""

    def __init__(self, name: str, about: str, *headings: str) -> None:
        today = datetime.date.today()
        self.name = name
        self.lines: list[str] = []
        self._say(f"{today.day} {today:%B %Y}{about}:", "")
        self.row(*headings)
        self.row(*["---"] * len(headings))

    def row(self, *cells: str) -> None:
        self._say(f"| {' | '.join(cells)} |")

    def _say(self, *lines: str) -> None:
        self.lines += lines
        print("\n".join(lines), flush=True)

    def publish(self, page: Path = PAGE) -> None:
        """Put it in place of the table of its name; raises ``ValueError`` where the page has none."""
        text = page.read_text("utf-8")
        place = re.compile(
            rf"(?<=<!-- BEGIN {re.escape(self.name)} -->\n).*?(?=<!-- END {re.escape(self.name)} -->)", re.S
        )
        if len(place.findall(text)) != 1:
            raise ValueError(f"{page.name} has no place for {self.name}.")
        told = "\n".join(["", *self.lines, "", ""])
        page.write_text(place.sub(lambda _: told, text), "utf-8")
