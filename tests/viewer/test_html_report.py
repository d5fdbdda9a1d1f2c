"""Pages say what the text says, show names as they are, need nothing from outside, and run one script: their own."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import resources
import stallscope
from parsers import open_trace
from parsers.model import EventKind, Trace
from rules import diagnosis_of
from rules.analysis.analysis import Analysis
from rules.comparison.compare import compare
from rules.verdict.verdict import BUDGET_LABELS, verdict
from viewer.appearance import palette, theme
from viewer.reports.comparison_blocks import comparison_report
from viewer.reports.comparison_report import kernel_titles
from viewer.reports.diagnosis_report import as_html
from viewer.reports.rendering.pages import SCRIPTS, page_of

NASTY = "<script>alert(1)</script>{{ 7 * 7 }}{% raw %}"


class Read(HTMLParser):
    """The tags of a page and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.types: list[str | None] = []
        self.policy = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        values = dict(attributes)
        if tag == "script":
            self.types.append(values.get("type"))
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] and self.open[-1] in self.inside:
            self.inside[self.open[-1]].append(data)
        else:
            self.text += data

    def runs_nothing_else(self) -> bool:
        """Whether the page's own script, which the policy names by its hash, is the only one."""
        own = [text for text, kind in zip(self.inside["script"], self.types, strict=True) if kind is None]
        data = [
            text for text, kind in zip(self.inside["script"], self.types, strict=True) if kind is not None
        ]
        rules = dict(each.strip().partition(" ")[::2] for each in self.policy.split(";"))
        return (
            len(own) == 1
            and rules["default-src"] == "'none'"
            and rules["script-src"] == hash_of(own[0])
            and rules["style-src"] == hash_of(self.inside["style"][0])
            and all(re.fullmatch(r"[A-Za-z0-9+/=]*", each) for each in data)
            and not any(
                name.startswith("on") or name in ("src", "href", "style") for name, _ in self.attributes
            )
        )


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture
def nasty() -> Trace:
    """The sample that waits for data, in which every region and kernel has a name that looks like markup."""
    trace = open_trace([resources.path("samples/dataloader_starved.pt.trace.json.gz")])
    kinds = np.isin(trace.events.kind, (EventKind.REGION, EventKind.KERNEL))
    named = np.isin(np.arange(len(trace.strings)), trace.events.name[kinds])
    return replace(
        trace,
        strings=tuple(
            f"{text} {NASTY}" if is_named else text
            for text, is_named in zip(trace.strings, named.tolist(), strict=True)
        ),
    )


def test_a_page_of_the_diagnosis_is_whole_and_shows_names_as_they_are(nasty: Trace) -> None:
    analysis = Analysis(nasty)
    diagnosis = diagnosis_of(analysis)
    page = as_html(nasty, diagnosis, analysis)
    read = Read(page)
    assert read.open == []
    assert read.runs_nothing_else()
    assert not set(read.tags) & {"img", "link", "iframe", "a"}
    assert verdict(analysis, diagnosis) in read.text
    for finding in diagnosis.findings:
        assert finding.title in read.text
        assert all(advice in read.text for advice in finding.advice)
    assert NASTY in read.text


def test_a_page_of_a_comparison_is_whole_and_breaks_no_number(nasty: Trace) -> None:
    other = open_trace([resources.path("samples/healthy.pt.trace.json.gz")])
    result = compare(nasty, other)
    page = page_of(comparison_report(result)).text
    read = Read(page)
    assert read.open == []
    assert read.runs_nothing_else()
    assert result.verdict in read.text
    assert all(title in read.text for title in kernel_titles(result.kernels))
    assert "td.number, th.number { text-align: right; white-space: nowrap" in page
    cells = re.findall(r'<td class="(\w+)"[^>]*>([^<]*)</td>', page)
    assert {kind for kind, text in cells if re.fullmatch(r"[-+]?[\d.,]+ (?:ms|us|s|ns).*", text)} == {
        "number"
    }


def test_pages_and_window_have_one_palette() -> None:
    keys = [*BUDGET_LABELS, *(cause.key for cause in palette.CAUSES)]
    assert {key: palette.part(key) for key in keys} == {key: theme.DARK.part(key).name() for key in keys}


def test_the_script_of_a_page_has_no_way_to_make_markup_of_a_text() -> None:
    script = "".join(resources.path(f"reports/page/{name}.js").read_text("utf-8") for name in SCRIPTS)
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
    ):
        assert way not in script
    assert script.isascii()
    assert "</script" not in script


def test_a_notebook_shows_the_page_in_a_frame_that_holds_it_apart() -> None:
    path = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    for html in (
        stallscope.open(path).diagnose()._repr_html_(),
        stallscope.compare(path, path)._repr_html_(),
    ):
        read = Read(html)
        values = dict(read.attributes)
        assert read.tags == ["iframe"]
        assert values["sandbox"] == "allow-scripts"
        assert Read(values["srcdoc"] or "").runs_nothing_else()
