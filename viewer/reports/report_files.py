"""Reports as files: which kinds there are, and the bytes of each for a diagnosis, a comparison and a trend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from parsers.model import Trace
from rules import Diagnosis
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison
from rules.gates.judging import Answer
from viewer.reports.html_report import comparison_page, diagnosis_page, trend_page
from viewer.reports.markdown_report import comparison_markdown, diagnosis_markdown, trend_markdown
from viewer.reports.pages import Page
from viewer.reports.series_report import Point

Makers: TypeAlias = Mapping[str, Callable[[], bytes]]  # kind of file -> what makes its content

SUFFIXES = {"html": ".html", "pdf": ".pdf", "markdown": ".md"}
TITLES = {"html": "Page that stands alone", "pdf": "PDF", "markdown": "Markdown"}


def kind_for(path: Path, makers: Makers, otherwise: str = "html") -> tuple[Path, str]:
    """The kind that a file's ending names; ``otherwise``, whose ending is added where the file has none."""
    kind = next((each for each in makers if path.suffix.lower() == SUFFIXES[each]), "")
    if kind:
        return path, kind
    return (path if path.suffix else path.with_suffix(SUFFIXES[otherwise])), otherwise


def file_kinds(makers: Makers) -> dict[str, str]:
    """What a file dialog offers -> the kind."""
    return {f"{TITLES[kind]} (*{SUFFIXES[kind]})": kind for kind in makers}


def makers_of(fill: Callable[[Page], Page], markdown: Callable[[], str]) -> Makers:
    """Makers of files from what fills a page."""
    return _Pages(fill, markdown).makers()


@dataclass(frozen=True, slots=True)
class _Pages:
    """Makes files of whatever fills a page."""

    fill: Callable[[Page], Page]
    markdown: Callable[[], str]

    def makers(self) -> Makers:
        return {"html": self._html, "pdf": self._pdf, "markdown": lambda: _bytes(self.markdown())}

    def _html(self) -> bytes:
        return _bytes(self.fill(Page()).text)

    def _pdf(self) -> bytes:
        from viewer.reports.pdf_report import as_pdf

        return as_pdf(self.fill(Page(printed=True)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def diagnosis_files(
    trace: Trace, diagnosis: Diagnosis, analysis: Analysis, *, all_tables: bool = False
) -> Makers:
    """The reports of one run."""

    def fill(page: Page) -> Page:
        return diagnosis_page(trace, diagnosis, analysis, page, all_tables=all_tables)

    return makers_of(fill, lambda: diagnosis_markdown(trace, diagnosis, analysis))


def comparison_files(result: Comparison, answers: Sequence[Answer] = ()) -> Makers:
    """The reports of a comparison."""
    return makers_of(
        lambda page: comparison_page(result, answers, page), lambda: comparison_markdown(result, answers)
    )


def trend_files(name: str, points: Sequence[Point]) -> Makers:
    """The reports of runs in their order."""
    return makers_of(lambda page: trend_page(name, points, page), lambda: trend_markdown(name, points))
