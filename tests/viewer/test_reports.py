"""Reports to paste and to keep: Markdown, JUnit XML, PDF and pictures say what the text says, and names stay names."""

from __future__ import annotations

import contextlib
import gzip
import re
import threading
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import Progress, Trace
from rules import Severity, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.comparison.compare import Comparison, compare
from rules.comparison.gate import Decision
from rules.findings.base import Evidence
from rules.gates.judging import Answer
from rules.gates.limits import limit_of
from rules.verdict.verdict import verdict
from viewer.appearance import theme
from viewer.cli import main
from viewer.dialogs.report_export import write_report
from viewer.reports.charts import bridge_chart, steps_chart
from viewer.reports.comparison_blocks import comparison_report
from viewer.reports.diagnosis_report import diagnosis_report
from viewer.reports.gate_report import comparison_junit, diagnosis_junit
from viewer.reports.pictures.timeline_picture import shown_stretch, timeline_picture
from viewer.reports.rendering.blocks import Report, Text
from viewer.reports.rendering.markdown_report import as_markdown, plain
from viewer.reports.rendering.pages import page_of
from viewer.reports.rendering.pdf_report import as_pdf
from viewer.reports.report_files import diagnosis_files
from viewer.window.main_window import MainWindow

EVIL = '</text><script>alert("1")</script> | `a` [b](http://c) @someone #12\x1b[2J\ud83d'


def with_evil_names(trace: Trace) -> Trace:
    return replace(trace, strings=tuple(f"{text} {EVIL}" for text in trace.strings))


@pytest.fixture(scope="session")
def sample() -> Trace:
    return open_trace([resources.path("samples/dataloader_starved.pt.trace.json.gz")], Progress())


@pytest.fixture(scope="session")
def comparison(sample: Trace) -> Comparison:
    return compare(sample, with_evil_names(sample))


ANSWERS = (
    Answer(limit_of("5"), Decision.PASSED, "The gate passed."),
    Answer(limit_of("launches=0"), Decision.FAILED, f"The gate on launches failed {EVIL}", "10", "12"),
    Answer(limit_of("p99=5"), Decision.INCONCLUSIVE, "The gate on p99 cannot decide."),
)


def test_markdown_of_a_comparison_leads_with_the_gate_and_is_no_markup(comparison: Comparison) -> None:
    text = as_markdown(comparison_report(comparison, ANSWERS))
    assert text.startswith("## ❌ Failed\n")
    assert plain(comparison.verdict) in text
    assert "| launches 0 % | 10 | 12 | ❌ Failed: The gate on launches failed" in text
    assert "<script" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == len(re.findall(r"(?<!\\)\|", header(text, line)))


def header(text: str, row: str) -> str:
    """The first line of the table that a row is in."""
    lines = text.splitlines()
    place = lines.index(row)
    while lines[place - 1].startswith("|"):
        place -= 1
    return lines[place]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b*c", r"a\_b\*c"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("2.5 ms - 3 ms", "2.5 ms - 3 ms"),
        ("a\n\nb <b> & @me #1", "a b &lt;b&gt; &amp; @\u200bme #\u200b1"),
        ("[x](http://y)", "\\[x\\](http:\u200b//y)"),
    ],
)
def test_names_are_shown_letter_by_letter(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_markdown_of_a_diagnosis_says_what_the_text_says(sample: Trace) -> None:
    analysis = Analysis(sample)
    diagnosis = diagnosis_of(analysis)
    text = as_markdown(diagnosis_report(sample, diagnosis, analysis))
    assert text.startswith(f"## {plain(verdict(analysis, diagnosis))}")
    assert all(plain(finding.title) in text for finding in diagnosis.findings[:3])
    assert "| share | time |" in text


def test_junit_has_a_test_for_each_limit_and_is_xml_whatever_the_names() -> None:
    suite = ET.fromstring(comparison_junit(EVIL, ANSWERS))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite.findall("testcase")] == [
        [],
        ["failure"],
        ["error"],
    ]


def test_junit_of_a_diagnosis_fails_the_rules_that_accuse(sample: Trace) -> None:
    analysis = Analysis(sample)
    diagnosis = diagnosis_of(analysis)
    high = {each.rule for each in diagnosis.findings if each.severity is Severity.HIGH}
    suite = ET.fromstring(diagnosis_junit("slow", diagnosis, Severity.HIGH))
    failed = {case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None}
    assert failed == high
    assert int(suite.get("skipped", "0")) == len(diagnosis.skipped)
    nothing = ET.fromstring(diagnosis_junit("slow", diagnosis, Severity.HIGH, "no GPU work was recorded"))
    assert nothing.get("errors") == "1"


def test_pictures_are_drawings_in_which_names_are_texts(comparison: Comparison) -> None:
    assert comparison.sides is not None
    analysis = comparison.sides[1].analysis
    picture = ET.fromstring(timeline_picture(analysis))
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert any("waiting for data" in text for text in texts)
    assert any("GPU 0" in text for text in texts)
    assert not list(picture.iter("{http://www.w3.org/2000/svg}script"))
    t0, t1, words = shown_stretch(analysis)
    assert (t0, t1) in [(step.start, step.end) for step in analysis.steady_steps]
    assert words.startswith("one step, ")
    ratio = comparison.judgement.ratio
    assert ratio is not None
    steps = ET.fromstring(steps_chart(ratio.before.ns, ratio.after.ns))
    assert len(list(steps.iter("{http://www.w3.org/2000/svg}rect"))) == 2 * len(ratio.before.ns)
    for bridge in comparison.bridges:
        assert "before" in bridge_chart(bridge)


def test_a_page_of_a_comparison_shows_the_gate_both_timelines_and_where_the_time_went(
    comparison: Comparison,
) -> None:
    page = page_of(comparison_report(comparison, ANSWERS)).text
    assert page.count("<figure>") == 3 + len(comparison.bridges)
    assert "Not decided" in page
    assert EVIL not in page
    assert page.count('<script type="application/octet-stream" class="recording">') == 2
    assert page.count("<script") == 3


def test_the_command_line_writes_every_kind_of_report(tmp_path: Path, qapp: object) -> None:
    path = str(resources.path("samples/dataloader_starved.pt.trace.json.gz"))
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "pdf", "markdown", "junit")}
    words = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    assert main(["compare", path, path, *words, "--fail-on-regression", "5"]) == 0
    assert files["pdf"].read_bytes().startswith(b"%PDF")
    assert files["markdown"].read_text("utf-8").startswith("## ✅ Passed")
    assert ET.fromstring(files["junit"].read_text("utf-8")).get("tests") == "1"
    assert main(["diagnose", path, "--pdf", str(tmp_path / "no folder" / "report.pdf")]) == 2


@pytest.mark.parametrize("name", ["dark", "contrast"])
def test_a_pdf_is_dark_on_white_whatever_the_theme_of_the_window(name: str, qapp: QApplication) -> None:
    page = page_of(Report("Title", (Text(("A sentence.",)),)), printed=True)
    theme.apply(qapp, name)
    try:
        colors = _colors_in(as_pdf(page))
    finally:
        theme.apply(qapp, "dark")
    assert colors
    assert max(max(each) for each in colors) < 0.5


def test_a_long_pdf_is_set_in_any_thread_without_a_word_on_the_terminal(qapp: QApplication) -> None:
    page = page_of(Report("Title", (Text(("A sentence. " * 400,)),) * 20), printed=True)
    said: list[str] = []

    def note(_kind: QtMsgType, _where: QMessageLogContext, text: str) -> None:
        said.append(text)

    earlier = qInstallMessageHandler(note)
    try:
        made = threading.Thread(target=as_pdf, args=(page,))
        made.start()
        made.join()
    finally:
        qInstallMessageHandler(earlier)
    assert said == []


def _colors_in(pdf: bytes) -> set[tuple[float, ...]]:
    """The colours that a PDF paints with but white, red, green and blue from 0 to 1."""
    found: set[tuple[float, ...]] = set()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        with contextlib.suppress(zlib.error):
            colors = re.findall(rb"((?:[\d.]+ ){3})(?:scn|rg)", zlib.decompress(stream))
            found |= {tuple(map(float, each.split())) for each in colors}
    return found - {(1.0, 1.0, 1.0)}


def test_the_window_writes_the_kind_that_the_ending_names(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = window.document
    assert document.trace is not None
    assert document.diagnosis is not None
    assert document.analysis is not None
    makers = diagnosis_files(document.trace, document.diagnosis, document.analysis)
    said: list[str] = []
    say: Callable[[str, str], None] = lambda problem, _: said.append(problem)  # noqa: E731
    for name, begins in (("a.md", b"## "), ("b.pdf", b"%PDF"), ("c", b"<!doctype html>")):
        write_report(tmp_path / name, makers, document.jobs, say)
        qtbot.waitUntil(lambda: not document.jobs.is_running("report"))
        written = tmp_path / (name if "." in name else f"{name}.html")
        assert written.read_bytes().startswith(begins)
    write_report(tmp_path / "none" / "a.md", makers, document.jobs, say)
    qtbot.waitUntil(lambda: bool(said))
    assert "could not be written" in said[0]


def test_the_picture_is_of_a_step_that_shows_the_problem(comparison: Comparison) -> None:
    assert comparison.sides is not None
    analysis = comparison.sides[1].analysis
    shown = {
        shown_stretch(analysis, [Evidence(0, step.start, step.start + 1, "")])[0]
        for step in analysis.steady_steps
    }
    assert shown == {step.start for step in analysis.steady_steps}
    before_all_steps = analysis.steady_steps[0].start - 1
    assert shown_stretch(
        analysis, [Evidence(0, before_all_steps, before_all_steps + 1, "")]
    ) == shown_stretch(analysis)


@pytest.mark.parametrize(("more", "printed"), [(0, 1), (1, 2)])
def test_tables_of_ranks_that_read_the_same_are_printed_once(
    more: int, printed: int, fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = gzip.decompress((fixtures / "operators" / "execution_trace.json.gz").read_bytes())
    other = whole.replace(b'aten::add_"', b'aten::sub_"') if more else whole
    (tmp_path / "rank0.json").write_bytes(whole)
    (tmp_path / "rank1.json").write_bytes(other)
    assert main(["diagnose", str(tmp_path / "rank0.json"), str(tmp_path / "rank1.json")]) == 0
    assert capsys.readouterr().out.count("Operators of the execution trace:") == printed
