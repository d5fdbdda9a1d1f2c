"""Documents that are written from the code, or that point into it, agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import resources
from rules.documentation import DESTINATION, page
from rules.findings.listed import FILE, index_text


def test_the_page_of_rules_is_written_from_the_rules_as_they_are() -> None:
    assert DESTINATION.read_text("utf-8") == page(), "run: python -m rules.documentation"
    assert resources.path(FILE).read_text("utf-8") == index_text(), "run: python -m rules.documentation"


def test_links_between_documents_lead_somewhere(repository: Path) -> None:
    documents = [*repository.glob("*.md"), *repository.glob("docs/**/*.md")]
    missing = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
        if not (document.parent / target).exists()
    ]
    assert missing == []


def test_every_decision_is_in_the_list(repository: Path) -> None:
    folder = repository / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    assert [file.name for file in sorted(folder.glob("[0-9]*.md")) if f"({file.name})" not in listed] == []


def test_recordings_and_tests_that_predictions_are_held_by_exist(repository: Path) -> None:
    text = (repository / "docs" / "predictions.md").read_text("utf-8")
    tables = text[text.index("## Causes with a name of their own") : text.index("## Limits")]
    rows = [line.split("|")[2:-1] for line in tables.splitlines() if line.startswith("|")]
    named = {name for row in rows for cell in row for name in re.findall(r"`([\w./]+)`", cell)}
    tests = {name for name in named if name.startswith("test_")}
    recordings = {name for name in named if "/" in name and not name.startswith("tests/")}
    assert len(tests) > 20
    assert len(recordings) > 30
    folder = repository / "tests"
    assert {name for name in tests if not any(folder.glob(f"*/{name}.py"))} == set()
    assert {name for name in recordings if not any((folder / "fixtures").glob(f"{name}.*"))} == set()
