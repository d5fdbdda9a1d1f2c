"""One browser for all tests of pages; where there is none they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import resources
from parsers import open_trace
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from tests.browser.chromium import Chromium, installed
from viewer.reports.diagnosis_report import as_html

Write = Callable[[Path], str]


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = installed()
    if program is None:
        pytest.skip("pages are tried in Chromium, which is not installed here")
    browser = Chromium(tmp_path_factory.mktemp("chromium"), program)
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="session")
def address_of(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """The address of a page with the diagnosis of a recording."""

    def write(path: Path) -> str:
        trace = open_trace([path])
        analysis = Analysis(trace)
        page = tmp_path_factory.mktemp("page") / "page.html"
        page.write_text(as_html(trace, diagnosis_of(analysis), analysis), "utf-8")
        return page.as_uri()

    return write


@pytest.fixture(scope="session")
def sample(address_of: Write) -> str:
    return address_of(resources.path("samples/dataloader_starved.pt.trace.json.gz"))
