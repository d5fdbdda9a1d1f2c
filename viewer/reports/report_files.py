"""Reports as files: which kinds there are, and the bytes of each for a diagnosis, a comparison and a trend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from parsers.model import Trace
from rules import Diagnosis
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison
from rules.gates.judging import Answer
from viewer.reports.comparison_blocks import comparison_report, trend_report
from viewer.reports.diagnosis_report import diagnosis_report
from viewer.reports.rendering.blocks import Points, Report
from viewer.reports.rendering.markdown_report import as_markdown
from viewer.reports.rendering.pages import page_of
from viewer.reports.series_report import Point

Makers: TypeAlias = Mapping[str, Callable[[], bytes]]  # kind of file -> what makes its content

SUFFIXES = {"html": ".html", "pdf": ".pdf", "markdown": ".md"}
TITLES = {"html": "Self-contained page", "pdf": "PDF", "markdown": "Markdown"}


def kind_for(path: Path, makers: Makers, otherwise: str = "html") -> tuple[Path, str]:
    """The kind that a file's ending names; ``otherwise``, whose ending is added where the file has none."""
    kind = next((each for each in makers if path.suffix.lower() == SUFFIXES[each]), "")
    if kind:
        return path, kind
    return (path if path.suffix else path.with_suffix(SUFFIXES[otherwise])), otherwise


def file_kinds(makers: Makers) -> dict[str, str]:
    """What a file dialog offers -> the kind."""
    return {f"{TITLES[kind]} (*{SUFFIXES[kind]})": kind for kind in makers}


def makers_of(report: Callable[[], Report]) -> Makers:
    """Makers of files from what makes the report."""

    def pdf() -> bytes:
        from viewer.reports.rendering.pdf_report import as_pdf

        return as_pdf(page_of(report(), printed=True))

    return {
        "html": lambda: _bytes(page_of(report()).text),
        "pdf": pdf,
        "markdown": lambda: _bytes(as_markdown(report())),
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def diagnosis_files(
    trace: Trace,
    diagnosis: Diagnosis,
    analysis: Analysis,
    *,
    all_tables: bool = False,
    notes: Sequence[str] = (),
) -> Makers:
    """The reports of one run; ``notes`` are the user's own, one a line."""

    def report() -> Report:
        made = diagnosis_report(trace, diagnosis, analysis, all_tables=all_tables)
        own = (Points("Bookmarks and notes", tuple(notes), quiet=False),) if notes else ()
        return replace(made, blocks=(*made.blocks, *own))

    return makers_of(report)


def comparison_files(result: Comparison, answers: Sequence[Answer] = ()) -> Makers:
    """The reports of a comparison."""
    return makers_of(lambda: comparison_report(result, answers))


def trend_files(name: str, points: Sequence[Point]) -> Makers:
    """The reports of runs in their order."""
    return makers_of(lambda: trend_report(name, points))
