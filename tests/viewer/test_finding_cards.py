"""What a card of a finding says beside its bar, and the lines below the cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QFileDialog, QLabel
from pytestqt.qtbot import QtBot

import resources
from parsers.model.units import percent
from rules.causes import OTHER_BASIS
from rules.remedies.remedy import remedy
from rules.verdict.absent import absent_in_a_line
from rules.verdict.promises import advice_on, gain
from rules.wording.words import Part
from viewer.appearance.widgets import unbroken
from viewer.panels.findings.card_parts import MIN_WIDTH, ShareBar
from viewer.panels.findings.check_list import CheckList, check_name
from viewer.panels.tabs.query import QueryPanel
from viewer.query.explained import can_be_explained
from viewer.reports.finding_ticket import finding_ticket
from viewer.window.main_window import MainWindow

from .conftest import wait_until_laid_out, wait_until_ready


def test_share_and_gain_stand_beside_the_bar_of_a_card_so_that_its_title_is_one_line(
    window: MainWindow, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    card = window.diagnosis.cards[0]
    wait_until_laid_out(qtbot, card)
    assert card.title.text() == "The GPU waits for Python"
    assert card.title.height() < 2 * card.title.fontMetrics().lineSpacing()
    (bar,) = card.findChildren(ShareBar)
    assert card.share.text() == f"{percent(bar.share)} of every step"
    assert card.gives.text().startswith("about ")
    middles = [each.mapTo(card, each.rect().center()) for each in (card.share, bar, card.gives)]
    assert [each.x() for each in middles] == sorted(each.x() for each in middles)
    assert max(each.y() for each in middles) - min(each.y() for each in middles) < 4


def test_a_card_advises_first_what_the_fix_says_whose_gain_it_tells(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    plan, card = window.document.plan, window.diagnosis.cards[0]
    assert plan is not None
    (promise,) = (each for each in plan.promises if each.id == card.finding.fix)
    other = replace(promise.proposal, remedy=remedy("Stack the items.", *card.finding.advice[:1]))
    plan = replace(plan, promises=(replace(promise, proposal=other),))
    card.tell(plan)
    assert card.advice.text() == "Stack the items."
    assert advice_on(card.finding, plan) == ("Stack the items.", *card.finding.advice)
    follower = replace(card.finding, leads=False)
    assert advice_on(follower, plan) == follower.advice
    card.fix_button.click()
    shown = [label.text() for label in card.findChildren(QLabel)]
    assert shown.count("Stack the items.") == 1
    card.tell(replace(plan, promises=()))
    assert card.finding.advice[0].startswith(card.advice.text().removesuffix(" ..."))


def test_a_card_says_how_much_of_a_step_goes_with_what_its_cause_delays(
    window: MainWindow, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    card = window.diagnosis.cards[0]
    finding, own = card.finding, card.finding.share
    assert isinstance(finding.headline.amount, Part)
    for more, told in ((OTHER_BASIS + 1e-6, True), (OTHER_BASIS - 1e-6, False)):
        headline = finding.headline
        if told:
            headline = replace(headline, amount=replace(headline.amount, with_delays=own + more))
        card.tell_as(replace(finding, headline=headline, with_delays=own + more))
        amount = f"{percent(own)} of every step"
        assert card.share.text() == (f"{amount}, {percent(own + more)} with delays" if told else amount)
        (bar,) = card.findChildren(ShareBar)
        assert bar.share == pytest.approx(own)
        assert bar.with_delays == pytest.approx(own + more if told else own)


def test_a_bar_is_painted_where_a_part_of_it_can_be_told(window: MainWindow, qtbot: QtBot) -> None:
    for width, is_painted in ((MIN_WIDTH, True), (MIN_WIDTH - 1, False)):
        bar = ShareBar(window.diagnosis.cards[0].finding, QColor("red"))
        qtbot.addWidget(bar)
        bar.resize(width, bar.height())
        picture = bar.grab().toImage()
        assert (picture.pixelColor(3, 2) == QColor("red")) is is_painted


def test_what_is_no_problem_stands_in_a_line_below_the_cards(empty_window: MainWindow, qtbot: QtBot) -> None:
    window, document = empty_window, empty_window.document
    window.open([resources.path("samples/cpu_python.pt.trace.json.gz")])
    wait_until_ready(qtbot, window)
    assert document.analysis is not None
    assert document.diagnosis is not None
    line = window.diagnosis.absent
    assert line is not None
    assert line.isVisible()
    assert line.text() == unbroken(absent_in_a_line(document.analysis, document.diagnosis))
    assert line.text().startswith("No problem here: ")


def test_why_leads_to_the_rows_that_a_figure_is_the_sum_of(window: MainWindow, qtbot: QtBot) -> None:
    card = next(each for each in window.diagnosis.cards if can_be_explained(each.finding))
    window.document.select_finding(card.finding)
    wait_until_laid_out(qtbot, card)
    qtbot.mouseClick(card.why_button, Qt.MouseButton.LeftButton)
    wait_until_laid_out(qtbot, card.sum_button)
    qtbot.mouseClick(card.sum_button, Qt.MouseButton.LeftButton)
    panel = window.panels.tabs.currentWidget()
    assert isinstance(panel, QueryPanel)
    assert card.finding.title in panel.editor.sql
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: panel.answer.table is not None)
    assert panel.answer.table is not None
    assert panel.answer.table.rows.rowCount() == 1


def test_a_finding_is_written_as_a_ticket_with_a_picture_beside_it(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qtbot.waitUntil(lambda: window.document.plan is not None)
    file = tmp_path / "slow night.md"
    offered: list[str] = []

    def ask(_: object, __: str, name: str, ___: str) -> tuple[str, str]:
        offered.append(name)
        return str(file), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    card = window.diagnosis.cards[0]
    window.document.select_finding(card.finding)
    wait_until_laid_out(qtbot, card)
    qtbot.mouseClick(card.ticket_button, Qt.MouseButton.LeftButton)
    assert window.banner.problem.text() == f"Saved {file.name}"
    assert offered[0].endswith(f"{card.finding.rule}.md")
    ticket = file.read_text("utf-8")
    assert ticket.startswith(f"## {card.finding.title}")
    assert "![The timeline](<slow night.png>)" in ticket
    assert not QImage(str(file.with_suffix(".png"))).isNull()
    assert card.gives.text() in ticket
    longest = max(card.finding.evidence, key=lambda place: place.end - place.start)
    assert f"--at {(longest.start + longest.end) / 2e6:.3f}ms" in ticket
    document = window.document
    assert document.trace is not None
    noted = finding_ticket(
        document.trace,
        card.finding,
        document.plan,
        picture="a.png",
        command="stallscope",
        notes=["ask *Ann*"],
    )
    assert "### Notes\n\n* ask \\*Ann\\*\n" in noted


def test_a_card_promises_nothing_before_the_gain_of_its_fix_is_known(window: MainWindow) -> None:
    assert window.document.diagnosis is not None
    finding = window.document.diagnosis.findings[0]
    assert finding.fix
    assert gain(finding, None, short=True) == ""


def test_quiet_checks_are_a_line_that_opens_to_what_each_of_them_looks_for(window: MainWindow) -> None:
    assert window.document.diagnosis is not None
    quiet, skipped = window.document.diagnosis.quiet, window.document.diagnosis.skipped
    found_nothing, not_made = window.diagnosis.findChildren(CheckList)

    def texts(checks: CheckList) -> list[str]:
        labels = checks.findChildren(QLabel)
        return [label.text().replace("\u200b", "") for label in labels if label.isVisible()]

    assert found_nothing.heading.text().startswith(f"{len(quiet)} checks found nothing")
    assert texts(found_nothing) == []
    assert texts(not_made) == []
    assert not_made.heading.text() == f"{len(skipped)} checks could not be made  ▸"
    assert not_made.reasons.text().startswith("no Nsight Compute counters; "), "the most frequent first"
    assert not_made.height() < 2 * not_made.reasons.height(), "one line"
    whole = not_made.reasons.fontMetrics().horizontalAdvance(not_made.reasons.text())
    first = not_made.reasons.fontMetrics().horizontalAdvance("no Nsight Compute counters")
    assert not_made.reasons.shown_text(whole) == not_made.reasons.text()
    assert not_made.reasons.shown_text(first) == "no Nsight Compute counters"
    assert not_made.reasons.shown_text(first - 1) == "", "a reason is whole or not there"
    found_nothing.heading.click()
    not_made.heading.click()
    assert not not_made.reasons.isVisible()
    without_counters = list(skipped.values()).count("no Nsight Compute counters")
    assert without_counters > 1
    assert f"No Nsight Compute counters ({without_counters} checks):" in texts(not_made)
    assert {check_name(rule) for rule in quiet} <= set(texts(found_nothing))
    assert {check_name(rule) for rule in skipped} <= set(texts(not_made))
    assert "The first steps of the recording take much longer than the later ones." in texts(found_nothing)
    found_nothing.heading.click()
    assert texts(found_nothing) == []


def test_the_name_of_a_check_keeps_its_abbreviations() -> None:
    assert check_name("copies-from-gpu") == "Copies from GPU"
    assert check_name("kernel-idle-sms") == "Kernel idle SMs"
