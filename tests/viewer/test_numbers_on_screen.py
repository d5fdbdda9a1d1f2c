"""Every figure that the window shows of a step and of its fixes, with what it is of: none contradicts another."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import resources
from parsers.model.late import dataclass
from parsers.model.units import duration, percent
from rules.analysis.idle.causes import Cause
from rules.comparison.compare import compare
from rules.fixes.step_time import MIN_RECORDER_SHARE
from rules.verdict.promises import (
    MIN_SPEEDUP,
    about_replay,
    factor,
    promise_for,
    step_with,
    worded,
    worded_shortly,
)
from rules.wording.words import Part
from tests.opened import opened
from viewer.appearance.widgets import unbroken
from viewer.panels import tabs
from viewer.panels.findings.card_parts import ShareBar
from viewer.panels.panel import Panel
from viewer.panels.tabs import operators
from viewer.panels.tabs.critical_path import CriticalPathPanel
from viewer.reports.diagnosis_report import as_html
from viewer.reports.json_report import as_json
from viewer.tables.table import rows_of
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_laid_out, wait_until_ready
from .page_tags import Tags
from .test_home import click

SAMPLES = (
    "sync_item.pt.trace.json.gz",
    "cpu_python.pt.trace.json.gz",
    "dataloader_starved.pt.trace.json.gz",
    "elementwise_chain.pt.trace.json.gz",
    "pageable_copy.pt.trace.json.gz",
    "allocator_thrash.sqlite",
    "straggler_four_ranks",
)
USUAL = 1  # so many are looked at in every run
ELSEWHERE = (  # below the shared data: one of each kind of recording that is no sample
    ("real/lm.pt.trace.json.gz",),
    ("ddp/straggler_cpu.rank*.pt.trace.json.gz",),
    ("ddp/straggler_gpu.rank*.pt.trace.json.gz",),
    ("nsys/sync_item.sqlite",),
    ("nsys/launch_bound.sqlite",),  # some steps of it are slow by chance
    ("serve/engine.pt.trace.json.gz", "serve/engine.requests.jsonl"),
    ("public/chrome/tracelens__traces__mi300__resnet_act_checkpoint.json.gz",),
    ("real/jax_eager.xplane.pb",),
    ("real/memory_growing.pt.trace.json.gz", "real/memory_growing.snapshot.pickle.gz"),
)
RECORDED = re.compile(r"of the ([\d.]+ (?:us|ms|s)) of a step")
WITHOUT = re.compile(
    r"Without the profiler it is .* of the ([\d.]+ (?:us|ms|s)) of a (?:typical )?step \(([\d.]+ %)\)"
)
OWN = re.compile(r": ([\d.]+(?: (?:us|ms|s))?) of the ([\d.]+ (?:us|ms|s)) of a step")
PROFILER = re.compile(
    r"takes ([\d.]+ (?:us|ms|s)) \(([\d.]+ %)\) of a recorded step of ([\d.]+ (?:us|ms|s))\."
)
UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True, slots=True)
class Shown:
    """A text on the screen: where it stands and what it is of."""

    place: str
    text: str
    of: str


def shown_numbers(window: MainWindow) -> list[Shown]:
    """What headline, bars, cards and fixes say, by what each figure is of."""
    document, verdict = window.document, window.verdict
    diagnosis, plan = document.diagnosis, document.plan
    assert diagnosis is not None
    assert plan is not None
    rows = []
    for number, card in enumerate(window.diagnosis.cards):
        finding = card.finding
        amount = finding.headline.amount
        if isinstance(amount, Part) and amount.is_of_a_step:
            rows.append(
                Shown(
                    f"card {number}",
                    card.share.text().partition(", ")[0],
                    f"share of {finding.rule} {number}",
                )
            )
        if (promise := promise_for(finding, plan)) is not None and finding.leads and card.gives.text():
            rows.append(Shown(f"card {number}", card.gives.text(), f"gain of {promise.id}"))
    first = window.diagnosis.cards[0].finding
    sentence = verdict.sentence.text().replace("\u00a0", " ")
    if ": " in sentence and isinstance(first.headline.amount, Part):
        rows.append(
            Shown("headline", sentence.rpartition(": ")[2].partition(", ")[0], f"share of {first.rule} 0")
        )
    for card in window.fixes.cards:
        promise = card.promise
        if not promise.proposal.redesign:
            rows.append(Shown("fix", card.gives.text(), f"gain of {promise.id}"))
        rows.append(Shown("fix", card.step.text().replace("\u00a0", " "), f"step with {promise.id}"))
        for chip, finding in card.chips:
            place = next(n for n, each in enumerate(window.diagnosis.cards) if each.finding is finding)
            chip.resize(3000, chip.height())
            if amount := window.diagnosis.cards[place].share.text():
                told = re.sub(r" of (every|the) step", "", amount)
                assert chip.text().endswith(f": {told}"), (chip.text(), amount)
    if window.fixes.cards and " · " in verdict.where.text():
        _, *times, gain = verdict.where.text().replace("\u00a0", " ").split(" · ")
        first_promise = plan.promises[0]
        rows += [Shown("headline", each, f"step with {first_promise.id}") for each in times]
        assert gain == worded(first_promise)
        assert worded_shortly(first_promise) in gain or first_promise.vague or first_promise.proposal.redesign
    return rows


def nanoseconds(told: str) -> float:
    """ "30.6 ms" as a number."""
    number, unit = told.split(" ")
    return float(number) * UNITS[unit]


def told_of_the_profiler(window: MainWindow) -> list[Shown]:
    """What the switch, the pill and the fixes say of the profiler, where the recorded step is the mean one."""
    diagnosis, strip = window.document.diagnosis, window.verdict.headline
    assert diagnosis is not None
    times = [each for each in diagnosis.step_times.values() if each.is_told]
    if not times or not all(each.is_mean for each in times):
        return []
    found = PROFILER.search(strip.without_recorder.toolTip().replace("\u00a0", " "))
    assert found is not None
    taken, share, step = found.groups()
    several = len(window.verdict.bars) > 1
    steps = {f" of {each.device}" if several else "" for each in times}
    rows = [Shown("switch", step, f"recorded step{whose}") for whose in steps]
    rows.append(Shown("switch", share, "share of the profiler"))
    without = next(iter({duration(each.length_ns) for each in times}))
    assert nanoseconds(step) - nanoseconds(taken) == pytest.approx(nanoseconds(without), rel=0.01)
    pills = [each.text() for each in strip.pills if each.text().startswith("profiler: ")]
    rows += [Shown("pill", each[10:].removesuffix(" of a step"), "share of the profiler") for each in pills]
    plan = window.document.plan
    assert plan is not None
    about = re.search(r"About ([\d.]+ %) of a step is profiler overhead", about_replay(plan))
    return [*rows, Shown("fixes", about[1], "share of the profiler")] if about else rows


def require_shares_of_their_own_figures(window: MainWindow) -> None:
    """Raises where a card's title tells another share than its sentence, unless that names the other basis."""
    for card in window.diagnosis.cards:
        amount, text = card.finding.headline.amount, unbroken(card.finding.explanation).replace("\u00a0", " ")
        bars = card.findChildren(ShareBar)
        if isinstance(amount, Part) and bars:
            assert bars[0].share == pytest.approx(amount.share)
            assert bars[0].with_delays == pytest.approx(max(amount.with_delays, amount.share))
        found = OWN.search(text)
        whole = window.document.analysis.window_ns if window.document.analysis is not None else 0
        if found is None or not isinstance(amount, Part) or card.finding.window_ns != whole:
            continue
        part, step = found.groups()
        share = nanoseconds(part if " " in part else f"{part} {step.split(' ')[1]}") / nanoseconds(step)
        if WITHOUT.search(text) is None and abs(card.finding.recorded_share - share) < 0.01 * share:
            assert share == pytest.approx(card.finding.share, abs=0.01 * share + 0.0006), text


def require_a_path_as_long_as_a_step(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where the times of the critical path do not add up to the recorded step."""
    show_tab(window, qtbot, "Critical path")
    panel, plan = window.panels.tabs.currentWidget(), window.document.plan
    assert isinstance(panel, CriticalPathPanel)
    assert plan is not None
    assert panel.table.rows.shown("time").sum() == pytest.approx(plan.replay.mean_ns, rel=0.001)
    steps = {step.name for step in window.document.steps}
    places = {name.rpartition(", in ")[2] for name in panel.table.rows.frame["name"]}
    assert not places & steps, "a place that every step has under another name"
    assert not any(each.startswith("request_") for each in places)


def require_the_same_compute_in_bar_and_sentence(window: MainWindow, qtbot: QtBot) -> None:
    """Raises where the sentence above the predicted step tells another time of compute than its bar."""
    window.side.setCurrentWidget(window.fixes)
    wait_until_laid_out(qtbot, window.fixes.cards[0].box)
    click(window.fixes.cards[0].box)
    wait_until_ready(qtbot, window)
    _, then = window.prediction.bars.parts()
    computes = sum(ns for key, _, ns in then if key == "compute")
    assert f" computes for {duration(computes)} of it." in window.prediction.band.text()


def require_as_many_read_backs_in_the_query(window: MainWindow) -> None:
    """Raises where the question about values that are read back lists another number of them than the card tells."""
    analysis = window.document.analysis
    assert analysis is not None
    texts = [unbroken(card.finding.explanation).replace("\u00a0", " ") for card in window.diagnosis.cards]
    found = [told for text in texts if (told := re.search(r"([\d,]+) scalar read-backs? a step", text))]
    if not found:
        return
    rows = rows_of(analysis, "synchronisations")
    if not rows["operator"].notna().any():
        return  # a recording without operators says of no call what it reads
    start, end = window.document.window
    read = rows["operator"].astype(str).isin(["aten::item", "aten::_local_scalar_dense"])
    read &= (rows["start_ns"] >= start) & (rows["start_ns"] < end)
    told = int(found[0][1].replace(",", ""))
    assert read.sum() / analysis.steps_in_window == pytest.approx(told, abs=0.6)


def told_in_words(window: MainWindow) -> list[Shown]:
    """What the cards say a step takes, with the recorder and without, and the shares in their sentences."""
    rows = []
    several = len(window.verdict.bars) > 1
    for number, card in enumerate(window.diagnosis.cards):
        finding = card.finding
        whose = f" of {finding.device}" if several else ""
        text = unbroken(finding.explanation).replace("\u00a0", " ")
        if (found := WITHOUT.search(text)) is not None:
            rows.append(Shown(f"card {number}", found[1], f"step without the recorder{whose}"))
            if not card.share.text().startswith(found[2]):
                rows.append(Shown(f"card {number}", found[2], f"share of {finding.rule} {number}"))
            text = text[: found.start()]
        rows += [
            Shown(f"card {number}", each, f"recorded step{whose}")
            for each in RECORDED.findall(text)
            if finding.window_ns == window.document.analysis.window_ns
        ]
    return rows


def told_by_reports(window: MainWindow) -> list[Shown]:
    """The same figures as the JSON and the page of the recording tell them."""
    document = window.document
    trace, diagnosis, plan, analysis = document.trace, document.diagnosis, document.plan, document.analysis
    assert trace is not None
    assert diagnosis is not None
    assert plan is not None
    assert analysis is not None
    told = as_json(trace, diagnosis, analysis)
    page = Tags()
    page.feed(as_html(trace, diagnosis, analysis))
    text = page.text.replace("\u00a0", " ")
    assert told["headline"]["sentence"] in text
    rows = []
    for number, (finding, each) in enumerate(zip(diagnosis.findings, told["findings"], strict=True)):
        assert finding.title in text
        amount = finding.headline.amount
        if isinstance(amount, Part) and amount.is_of_a_step:
            assert each["share"] == pytest.approx(amount.share, abs=0.0001)
            share = each["title"].rpartition(": ")[2].partition(", ")[0]
            rows.append(Shown("JSON", share, f"share of {finding.rule} {number}"))
    for promise, each in zip(plan.promises, told["fixes"], strict=True):
        assert (each["low"], each["high"]) == pytest.approx((promise.low, promise.high), abs=0.001)
        assert worded(promise) in text
        if not promise.proposal.redesign and not promise.vague and promise.expected >= MIN_SPEEDUP:
            rows.append(Shown("JSON", f"about {factor(each['expected'])}", f"gain of {promise.id}"))
    for bar in window.verdict.bars:
        time = diagnosis.step_times.get(bar.device)
        if time is not None and time.is_told:
            assert f"a step of {duration(time.length_ns)} without {duration(time.recorder_ns)}" in text
            for part in [each.part for each in bar.buttons if each.share > 0.05]:
                both = rf"{re.escape(percent(part.amount / time.length_ns))}\s*{re.escape(duration(part.amount))}"
                assert re.search(both, text), part
    return rows


def require_agreement(rows: list[Shown]) -> None:
    """Raises where one thing is told in two ways."""
    told: dict[str, set[str]] = {}
    for row in rows:
        told.setdefault(row.of, set()).add(row.text)
    assert {of: texts for of, texts in told.items() if len(texts) > 1} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("files", ELSEWHERE, ids=lambda files: Path(files[0]).name)
def test_other_kinds_of_recordings_tell_one_thing_in_one_way(
    files: tuple[str, ...], shared_data: Path, empty_window: MainWindow, qtbot: QtBot
) -> None:
    window, document = empty_window, empty_window.document
    paths = [path for each in files for path in sorted(shared_data.glob(each))]
    if not paths:
        pytest.skip(f"{files[0]} is not among the recordings of this machine")
    window.open(paths)
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: document.plan is not None)
    rows = [*shown_numbers(window), *told_in_words(window), *told_of_the_profiler(window)]
    assert len(rows) > 2
    require_agreement(rows)
    require_shares_of_their_own_figures(window)
    require_a_path_as_long_as_a_step(window, qtbot)
    require_as_many_read_backs_in_the_query(window)
    if window.fixes.cards:
        require_the_same_compute_in_bar_and_sentence(window, qtbot)


def test_the_columns_of_calls_say_whose_they_are() -> None:
    assert [each.title for each in operators.OPERATORS if each.key == "calls"] == ["CPU calls"]
    assert [each.title for each in operators.ROOFS if each.key == "calls"] == ["GPU calls"]


def test_kernels_and_two_recordings_of_one_program_tell_one_thing_in_one_way(
    empty_window: MainWindow, qtbot: QtBot, fixtures: Path
) -> None:
    window = empty_window
    window.open([resources.path("samples/kernels.raw.csv.gz")])
    wait_until_ready(qtbot, window)
    titles = [card.title.text() for card in window.diagnosis.cards]
    assert titles
    assert window.verdict.sentence.text().replace("\u00a0", " ") == window.diagnosis.cards[0].finding.title
    pair = [fixtures / "programs" / f"moderate{each}.pt.trace.json.gz" for each in ("", ".fixed")]
    result = compare(*(opened(each) for each in pair))
    before, after = duration(result.step.before), duration(result.step.after)
    assert f"{after} instead of {before}" in result.headline
    for bridge in result.bridges:
        assert (duration(bridge.before), duration(bridge.after)) == (before, after)


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(name, marks=() if number < USUAL else pytest.mark.thorough)
        for number, name in enumerate(SAMPLES)
    ],
)
def test_no_two_figures_on_the_screen_contradict_each_other(
    sample: str, empty_window: MainWindow, qtbot: QtBot
) -> None:
    window, document = empty_window, empty_window.document
    window.open([resources.path(f"samples/{sample}")])
    wait_until_ready(qtbot, window)
    qtbot.waitUntil(lambda: document.plan is not None)
    rows = shown_numbers(window)
    assert {row.place for row in rows} >= {"headline", "card 0"}
    rows += [*told_in_words(window), *told_by_reports(window), *told_of_the_profiler(window)]
    require_agreement(rows)
    require_shares_of_their_own_figures(window)
    require_a_path_as_long_as_a_step(window, qtbot)
    require_as_many_read_backs_in_the_query(window)

    diagnosis, plan = document.diagnosis, document.plan
    assert diagnosis is not None
    assert plan is not None
    for bar in window.verdict.bars:
        time = diagnosis.step_times.get(bar.device)
        if time is None:
            continue
        whole = time.length_ns
        if time.recorder_share < MIN_RECORDER_SHARE:  # the bar is of the mean step, as recorded
            start, end = document.window
            whole = (end - start) / document.analysis.steps_in_window
        assert sum(button.part.amount for button in bar.buttons) == pytest.approx(whole, rel=0.01)
        assert time.length_ns == pytest.approx(plan.replay.usual_ns, rel=0.01)
    if len(window.verdict.bars) == 1:
        parts = {button.part.key: button.share for button in window.verdict.bars[0].buttons}
        for card in window.diagnosis.cards:
            about = card.finding.category.about
            raised = "what it delays" in card.finding.explanation or card.finding.leads
            if isinstance(about, Cause) and about.key in parts and card.finding.device is not None:
                share = card.finding.share
                assert (
                    share >= parts[about.key] - 0.02
                    if raised
                    else share == pytest.approx(parts[about.key], abs=0.02)
                )
    if window.fixes.cards and not plan.promises[0].proposal.redesign:
        window.side.setCurrentWidget(window.fixes)
        wait_until_laid_out(qtbot, window.fixes.cards[0].box)
        click(window.fixes.cards[0].box)
        wait_until_ready(qtbot, window)
        prediction = window.what_if.prediction
        assert prediction is not None
        assert prediction.outcome.before_ns == pytest.approx(plan.replay.usual_ns)
        assert prediction.outcome.gain == pytest.approx(plan.promises[0].expected, rel=0.02)
        assert window.prediction.sentence.text().startswith(f"About {factor(prediction.outcome.gain)} faster")
        assert step_with(plan.promises[0], plan).split(" → ")[0].split()[0] in window.prediction.band.text()
    document.select_step(0)
    recorded = "bar: as recorded" in [each.text() for each in window.verdict.headline.pills]
    assert recorded is any(each.is_told for each in diagnosis.step_times.values())


def test_the_document_says_of_each_tab_what_its_numbers_are_of() -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "hands.md"
    places = [
        line.split("|")[1] for line in document.read_text("utf-8").splitlines() if line.startswith("| ")
    ]
    said = {name for place in places for name in re.findall(r"\*([^*]+)\*", place)}
    titles = {
        cls.title
        for _, name, _ in pkgutil.iter_modules(tabs.__path__)
        for cls in vars(importlib.import_module(f"{tabs.__name__}.{name}")).values()
        if isinstance(cls, type) and issubclass(cls, Panel) and cls.title
    }
    assert len(titles) > 10
    assert titles <= said
