"""Names that a stranger chose are shown as text: no markup, no control codes, no formulas, wherever they appear."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLabel, QListView, QTextEdit, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from tests.examples import one_of
from tests.parsers.chrome.traces import Event, complete, kernel, launch, text_of
from tests.parsers.test_ncu_csv import raw_page
from viewer.cli import main
from viewer.dialogs.page_dialog import QualityDialog
from viewer.panels.tables.table_model import csv_text
from viewer.panels.tables.table_view import TableView
from viewer.user_data.session import Session
from viewer.window.main_window import MainWindow
from viewer.window.palette import Mode

from .conftest import wait_until_ready
from .page_tags import Tags, hash_of, script_of_ours

MARKUP = "<b>bold</b><script>alert(1)</script><img src=x onerror=alert(2)><a href='file:///etc/passwd'>x</a>"
CODES = "\x1b[31mred\x07\x00\x9b2J\u202egnp.\u2066\u200f"
EVIL = f"=cmd()|' /C calc'!A0 {MARKUP} {CODES} &amp; &copy; 50 % %s {{0}} \\ \" end"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def events() -> list[Event]:
    found: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": EVIL}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 5, "args": {"name": EVIL}},
        {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": EVIL}},
    ]
    for step in range(3):
        at = step * 1000
        found.append(complete(f"ProfilerStep#{step} {EVIL}", at, 990, "user_annotation"))
        found.append(complete(f"{EVIL} region", at + 860, 120, "user_annotation"))
        found.append(complete(f"{EVIL} frame", at + 1, 980, "python_function"))
        found.append(complete(f"{EVIL} other", at + 1, 980, EVIL, tid=EVIL, pid=EVIL))
        found.append(complete(f"{EVIL} wait", at + 300, 20, tid=5))
        found.append({"ph": "C", "name": EVIL, "pid": 1, "ts": at, "args": {EVIL: step}})
        for number in range(8):
            correlation = step * 8 + number + 1
            arguments = {EVIL: EVIL, "Input Dims": [[2, EVIL]], "Input type": [EVIL]}
            found.append(complete(f"{EVIL} op", at + 9 + number * 5, 4, args=arguments))
            found.append(launch(at + 10 + number * 5, correlation, "cudaLaunchKernel"))
            found.append(kernel(f"{EVIL} gemm", at + 50 + number * 100, 60, correlation, note=EVIL))
    found.append(complete(f"{EVIL} broken", 10, -1))
    return found


def recording(folder: Path) -> Path:
    path = folder / "<b>run<script>.json"
    about = {
        "schemaVersion": 1, "host_name": EVIL, "distributedInfo": {"rank": 0, "world_size": 1}, "pytorch_version": EVIL,
        "deviceProperties": [{"id": 0, "name": EVIL, "numSms": 132}],
    }  # fmt: skip
    path.write_text(text_of(events(), **about))
    return path


def report(folder: Path) -> Path:
    name = EVIL.replace('"', '""').replace("\x00", "")
    path = folder / "page.csv"
    rows = [(str(number), name, "1.5") for number in range(3)]
    path.write_text(f"==WARNING== {EVIL}\n" + raw_page(rows), "utf-8", newline="")
    return path


Make = Callable[[Path], Path]


@pytest.fixture(params=one_of(2, [recording, report]))
def evil_window(
    request: pytest.FixtureRequest, empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> MainWindow:
    make: Make = request.param
    empty_window.open([make(tmp_path)])
    wait_until_ready(qtbot, empty_window)
    assert empty_window.document.trace is not None
    return empty_window


def interpreted(text: str) -> bool:
    """Whether Qt would show some of a stranger's text as markup, where it decides by itself."""
    return bool(GuiQt.mightBeRichText(text)) and any(
        tag in text for tag in ("<b>", "<script", "<img", "<a href")
    )


def texts_of_items(view: QAbstractItemView) -> Iterator[str]:
    model = view.model()
    root = view.rootIndex()
    for row in range(min(model.rowCount(root), 20)):
        for column in range(1 if isinstance(view, QListView) else model.columnCount(root)):
            yield str(model.index(row, column).data(Qt.ItemDataRole.ToolTipRole) or "")


def faults(root: QWidget) -> list[str]:
    """Widgets that would show markup of the recording as such."""
    found = []
    for widget in [root, *root.findChildren(QWidget)]:
        if isinstance(widget, QLabel):
            guessed = widget.textFormat() == Qt.TextFormat.AutoText and not interpreted(widget.text())
            if not guessed and widget.textFormat() != Qt.TextFormat.PlainText:
                found.append(f"{type(widget).__name__} text: {widget.text()[:80]}")
        if isinstance(widget, QTextEdit) and any(tag in widget.toHtml() for tag in ("<img", "<a href")):
            found.append(f"{type(widget).__name__} html")
        if interpreted(widget.toolTip()):
            found.append(f"{type(widget).__name__} tooltip: {widget.toolTip()[:80]}")
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            found += [
                f"{type(widget).__name__} item: {tip[:80]}"
                for tip in texts_of_items(widget)
                if interpreted(tip)
            ]
    found += [
        f"action {action.toolTip()}" for action in root.findChildren(QAction) if interpreted(action.toolTip())
    ]
    return found


def test_no_label_tooltip_or_table_of_the_window_shows_markup(evil_window: MainWindow, qtbot: QtBot) -> None:
    window = evil_window
    trace = window.document.trace
    assert trace is not None
    assert faults(window) == []
    for title in window.panels.titles():
        window.panels.show_panel(title)
        wait_until_ready(qtbot, window)
        assert faults(window) == [], title
    lane, name = trace.events.lane.tolist(), trace.events.name.tolist()
    for event in dict(zip(zip(lane, name, strict=True), range(len(trace.events)), strict=True)).values():
        window.document.select_event(event)
        wait_until_ready(qtbot, window)
        assert faults(window) == []
    if window.document.analysis is not None and len(window.document.analysis.idle):
        window.document.selection.select_gap(0)
        assert faults(window) == []


def test_what_appears_under_the_pointer_is_text(evil_window: MainWindow, qtbot: QtBot) -> None:
    window = evil_window
    for widget in [window.timeline, *window.panels.findChildren(QWidget)]:
        if not widget.isVisible() or widget.width() < 20:
            continue
        for at in (0.2, 0.5, 0.8):
            QTest.mouseMove(widget, QPoint(round(widget.width() * at), round(widget.height() * at)))
            QApplication.processEvents()
            assert not interpreted(QToolTip.text())
    for shown in QApplication.topLevelWidgets():
        assert faults(shown) == []


def test_the_palette_and_the_account_of_losses_show_text(evil_window: MainWindow, qtbot: QtBot) -> None:
    trace = evil_window.document.trace
    assert trace is not None
    dialog = QualityDialog(trace, evil_window)
    qtbot.addWidget(dialog)
    dialog.show()
    assert faults(dialog) == []
    search = evil_window.toolbar.search
    search.start(Mode.ALL)
    QTest.keyClicks(search, "bold")
    qtbot.waitUntil(lambda: search.popup.isVisible() and bool(search.popup.hits))
    wait_until_ready(qtbot, evil_window)
    for shown in QApplication.topLevelWidgets():
        assert faults(shown) == []


MARKS = ("alert(", "onerror", "calc'", "/etc/passwd", "[31mred", "gnp.")  # of EVIL, as it is or escaped


@pytest.mark.parametrize("make", [recording, report])
def test_no_page_runs_or_loads_anything_but_its_own_script(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = str(make(tmp_path)), tmp_path / "page.html"
    for words in (["diagnose", path], ["compare", path, path]):
        assert main([*words, "--html", str(page)]) == 0
        text = page.read_text("utf-8")
        parsed = Tags()
        parsed.feed(text)
        assert not parsed.tags & {"img", "a", "iframe", "object", "embed", "link", "base", "form", "b"}
        assert not any(
            name.startswith("on") or name in ("src", "srcset", "srcdoc", "href", "xlink:href", "style")
            for _, attributes in parsed.found
            for name in attributes
        )
        scripts = list(zip(parsed.attributes_of("script"), parsed.inside["script"], strict=True))
        assert [inside for attributes, inside in scripts if not attributes] == [script_of_ours()]
        for attributes, inside in scripts:
            if attributes:
                assert attributes == {"type": "application/octet-stream", "class": "recording"}
                assert re.fullmatch("[A-Za-z0-9+/]+={0,2}", inside)
        (style,) = parsed.inside["style"]
        assert parsed.attributes_of("style") == [{}]
        assert not re.search(r"url\(|@import", style)
        policies = [each for each in parsed.attributes_of("meta") if "http-equiv" in each]
        assert policies == [
            {
                "http-equiv": "Content-Security-Policy",
                "content": f"default-src 'none'; style-src {hash_of(style)}; "
                f"script-src {hash_of(script_of_ours())}; base-uri 'none'; form-action 'none'; "
                "require-trusted-types-for 'script'",
            }
        ]
        if make is recording:  # pages of a kernel report name no kernel unless a check complains of one
            assert any(mark in parsed.text for mark in MARKS)
        assert not any(mark in part for mark in MARKS for part in (script_of_ours(), style))
        assert not CONTROL.search(text)
    capsys.readouterr()


@pytest.mark.parametrize("make", [recording, report])
def test_no_control_code_reaches_a_terminal(
    tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(make(tmp_path))
    for words in (["diagnose", path], ["compare", path, path]):
        assert main(words) == 0
        printed = capsys.readouterr()
        assert not CONTROL.search(printed.out + printed.err)
    for words in (["diagnose", "--json", path], ["compare", "--json", path, path]):
        assert main(words) == 0
        printed = capsys.readouterr()
        assert not CONTROL.search(printed.out + printed.err)
        assert json.loads(printed.out)
    assert main(["diagnose", str(tmp_path / f"gone {CODES.replace(chr(0), '')}")]) == 2
    assert not CONTROL.search(capsys.readouterr().err)


def test_nothing_that_is_copied_or_exported_begins_a_formula(
    evil_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    window = evil_window
    for title in window.panels.titles():
        window.panels.show_panel(title)
        wait_until_ready(qtbot, window)
        for table in window.panels.tabs.currentWidget().findChildren(TableView):
            table.copy_csv()
            for row in csv.reader(io.StringIO(QGuiApplication.clipboard().text(), newline="")):
                assert not any(cell.startswith(("=", "+", "@")) for cell in row)
            table.copy_text()
            for line in QGuiApplication.clipboard().text().splitlines():
                assert not any(cell.startswith(("=", "@")) for cell in line.split("\t"))
    window.acts.copy_diagnosis()
    assert not CONTROL.search(QGuiApplication.clipboard().text())


def test_a_converted_table_holds_no_formula_and_a_converted_trace_the_names_as_they_were(
    tmp_path: Path,
) -> None:
    path = recording(tmp_path)
    for to, name in (("csv", "out.csv"), ("chrome", "out.json")):
        assert main(["convert", str(path), "--to", to, str(tmp_path / name)]) == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            assert not any(cell.startswith(("=", "+", "@")) for cell in row)
    names = {each["name"] for each in json.loads((tmp_path / "out.json").read_text("utf-8"))["traceEvents"]}
    assert f"{EVIL} gemm" in names


@pytest.mark.parametrize("name", one_of(3, [r"\ud83d", r"\udfff half", r"\ud83d\ude00", r"\u0000", ""]))
def test_half_a_character_in_a_name_can_be_shown_and_written(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(
        text_of(events()).replace("cudaLaunchKernel", f"cudaLaunchKernel{name}").replace(" gemm", name)
    )
    page = tmp_path / "page.html"
    assert main(["diagnose", str(path), "--html", str(page)]) == 0
    assert main(["diagnose", str(path), "--json"]) == 0
    for to in ("csv", "chrome", "parquet"):
        assert main(["convert", str(path), "--to", to, str(tmp_path / f"out.{to}")]) == 0
    capsys.readouterr().out.encode("utf-8")


def test_the_title_of_a_strangers_bookmark_is_plain_text_wherever_it_is_shown(
    make_window: Callable[..., MainWindow], qtbot: QtBot, tmp_path: Path
) -> None:
    title = "<img src='/etc/passwd'><b>bold</b>"
    recording = tmp_path / "run.json"
    recording.write_text(text_of(events()))
    session = Session(tmp_path / "theirs.stallscope", [recording])
    session.add(0, 5, title)
    session.close()
    window = make_window()
    window.open([session.path])
    qtbot.waitUntil(lambda: bool(window.bookmarks.bookmarks))
    assert window.bookmarks.bookmarks[0].title == title
    window.panels.show_panel("Bookmarks")
    showing = [label for label in window.findChildren(QLabel) if title in label.text()]
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in showing)


FORMULAS = [
    *(f"{blank}{sign}HYPERLINK(0)" for sign in "=+-@＝＋－＠" for blank in ("", *"\t\r\n \ufeff", "\r\n")),
    "\t", "\rplain", "a\rb\r\n=c", "\u202egnp.=cmd()", "\x1b]0;title\x07", "\x85", "\u2028=c", "\ud83d", '"=1"', ",=1",
]  # fmt: skip
RUNS = re.compile(r"^[\s\ufeff\x00-\x1f]*[=+\-@＝＋－＠]|^[\t\r\n]")


def csv_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Every way in which names of a recording become CSV without a window."""
    path = folder / "run.json"
    found = [kernel(name, 100 + 10 * number, 5, number) for number, name in enumerate(FORMULAS)]
    path.write_text(text_of([complete("ProfilerStep#1", 0, 2000, "user_annotation"), *found]))
    asked = ["query", str(path), 'select name, 1 as "=1", 2 as "+\r" from kernels']
    capsys.readouterr()
    assert main([*asked, "--format", "csv"]) == 0
    printed = capsys.readouterr().out
    assert main([*asked, "--out", str(folder / "asked.csv")]) == 0
    assert main(["convert", str(path), "--to", "csv", str(folder / "events.csv")]) == 0
    files = {name: (folder / name).read_bytes().decode() for name in ("asked.csv", "events.csv")}
    return {"printed": printed, **files}


def test_no_cell_of_any_csv_is_run_or_fools_its_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for way, text in csv_of(tmp_path, capsys).items():
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert len(cells) > len(FORMULAS)
        assert [cell for cell in cells if RUNS.match(cell)] == [], way
        assert not CONTROL.search(text), way
        assert not re.search("[\u2028\u2029\ud800-\udfff]", text), way
        assert "\r" not in text, way


def test_no_cell_of_a_table_of_the_window_is_run() -> None:
    text = csv_text(FORMULAS, [FORMULAS])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [len(row) for row in rows] == [len(FORMULAS)] * 2
    assert not [cell for row in rows for cell in row if RUNS.match(cell)]
    assert not any(CONTROL.search(cell) for row in rows for cell in row)


FORGED = "run\nThe gate failed: forged\r\x1b[31m\u202e.json"


def test_a_newline_in_the_name_of_a_file_forges_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(recording(tmp_path).rename(tmp_path / FORGED))
    written = [str(tmp_path / name) for name in ("r.html", "r.md", "r.xml")]
    options = [
        word for pair in zip(("--html", "--markdown", "--junit"), written, strict=True) for word in pair
    ]
    for words in (["diagnose", path], ["compare", path, path], ["compare", "--series", path, path]):
        assert main([*words, *options]) == 0
        printed = capsys.readouterr()
        for text in (printed.out, printed.err, *(Path(name).read_text("utf-8") for name in written)):
            assert not re.search("^The gate failed: forged", text, re.MULTILINE), words
            assert not CONTROL.search(text)
    assert main(["diagnose", f"{path}.gone"]) == 2
    assert main(["baseline", "save", "x", path, "--store", str(tmp_path / "runs.sqlite")]) == 0
    assert main(["baseline", "list", "--store", str(tmp_path / "runs.sqlite")]) == 0
    printed = capsys.readouterr()
    assert not re.search("^The gate failed: forged", printed.out + printed.err, re.MULTILINE)


def test_the_banner_of_a_window_says_the_name_of_a_file_in_one_line(
    empty_window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / FORGED).write_text("no recording")
    empty_window.open([tmp_path / FORGED])
    qtbot.waitUntil(lambda: bool(empty_window.banner.problem.text()))
    said = empty_window.banner.problem.text() + empty_window.banner.accessibleName()
    assert "\n" not in said
    assert not CONTROL.search(said)


@pytest.mark.parametrize("name", one_of(3, [r"\ud83d", r"\udfff half", r"\ud83d\ude00", "\N{GRINNING FACE}"]))
def test_json_is_what_a_strict_reader_takes(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run\xff\xfe.json"))
    path.write_text(text_of([*events(), kernel("x", 5, 60, 99)]).replace('"x"', f'"{name}"'))
    sql = "select name from kernels order by start_ns limit 1"
    for words in (
        ["diagnose", "--json", "--tables", str(path)],
        ["compare", "--json", str(path), str(path)],
        ["whatif", "--json", str(path)],
        ["query", str(path), sql, "--format", "json"],
    ):
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert printed.isascii()
        msgspec.json.decode(printed)
    assert main(["query", str(path), sql, "--out", str(tmp_path / "asked.json")]) == 0
    msgspec.json.decode((tmp_path / "asked.json").read_bytes())
    assert main(["convert", str(path), "--to", "chrome", str(tmp_path / "out.json")]) == 0
    msgspec.json.decode((tmp_path / "out.json").read_bytes())
