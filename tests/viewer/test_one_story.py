"""The first sentence, the first card, the first line of What if, the page and the JSON of a recording agree."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

import resources
from parsers.model.units import duration
from rules.analysis.idle.causes import Cause
from rules.causes import leading
from rules.fixes.plan import plan_of
from rules.verdict.promises import first_step, gain, promise_for
from rules.verdict.verdict import time_parts, verdict
from rules.wording.words import Part, Reader
from tests.opened import analysed, diagnosed, opened
from viewer.reports.diagnosis_report import as_html, card, diagnosis_report
from viewer.reports.fixes_report import fixes_text, numbers_of_changes
from viewer.reports.json_report import as_json
from viewer.reports.rendering.terminal_report import WIDTH
from viewer.reports.tables_report import rows_that_matter, tables_blocks
from viewer.reports.text_report import as_text

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROGRAMS = FIXTURES / "programs"
SINGLE = [
    *sorted(PROGRAMS.glob("*.pt.trace.json.gz")),
    *sorted(PROGRAMS.glob("*.trace.json.gz")),
    *sorted(PROGRAMS.glob("*.sqlite.gz")),
    *sorted((FIXTURES / "pairs").glob("*.gz")),
    *sorted((FIXTURES / "causes").glob("*.gz")),
]
RECORDINGS = {path.name: (path,) for path in SINGLE if ".rank" not in path.name}
RECORDINGS |= {
    name: tuple(sorted(PROGRAMS.glob(f"{name}.rank*.gz")))
    for name in sorted({path.name.split(".rank")[0] for path in PROGRAMS.glob("*.rank*.gz")})
}
NUMBER = re.compile(r"\d+")
BESIDE = re.compile(r"fixed by change (\d+)")
IDLE_RULES = (
    "allocation-in-step",
    "launching-too-slowly",
    "synchronisation-in-step",
    "waiting-for-data",
    "waiting-for-python",
)
ONE_OF = 8  # of so many, `make test` compares one
CHOSEN = [
    pytest.param(name, marks=pytest.mark.thorough if number % ONE_OF else ())
    for number, name in enumerate(sorted(RECORDINGS))
]


def test_enough_recordings_are_compared_every_day() -> None:
    assert len(RECORDINGS) // ONE_OF >= 15


def begins_with_the_same_cause(*files: Path) -> None:
    """Every answer does."""
    analysis, diagnosis = analysed(*files), diagnosed(*files)
    plan, first = plan_of(analysis), leading(analysis, diagnosis.findings)
    sentence, do_first = verdict(analysis, diagnosis), first_step(plan, diagnosis)
    as_object = as_json(analysis.trace, diagnosis, analysis)
    page = diagnosis_report(analysis.trace, diagnosis, analysis)
    lines = as_text(analysis.trace, diagnosis, analysis).splitlines()

    assert page.title == lines[0] == as_object["headline"]["sentence"] == sentence
    assert do_first == as_object["headline"]["do_first"]
    assert [each["id"] for each in as_object["fixes"]] == [each.id for each in plan.promises]
    if first is None:
        return
    assert diagnosis.findings[0] is first
    assert as_object["findings"][0]["title"] == first.title
    assert (
        sentence == first.title
        or not first.category.accuses
        or sentence.startswith(("Copies to and from", "The GPU computes"))
    )
    if not plan.promises:
        return
    promise = plan.promises[0]
    whatif = fixes_text(analysis, diagnosis)
    if first.fix:
        assert first.fix == promise.id
        assert as_object["findings"][0]["fix"] == as_object["fixes"][0]["id"] == as_object["causes"][0]["fix"]
        assert do_first.startswith("Do this first")
        assert gain(first, plan).removesuffix(" faster") in do_first or "possibly" in do_first
        assert whatif[0].startswith("What to change")
    elif first.category.accuses:
        assert do_first.startswith("Of the fixes with a known gain")
        assert " ".join(whatif).startswith(f"The biggest problem, whose gain is not known: {first.title}")
    assert textwrap.wrap(f"1. {promise.proposal.title}", WIDTH)[0] in whatif
    assert promise.proposal.title in " ".join(do_first.split())


def names_one_change(*files: Path) -> None:
    """What stands beside a finding and below it."""
    analysis, diagnosis = analysed(*files), diagnosed(*files)
    plan = plan_of(analysis)
    ids = [each.id for each in plan.promises]
    changes = numbers_of_changes(plan.promises, Reader.of(analysis.trace))
    report = " ".join(as_text(analysis.trace, diagnosis, analysis).split())
    for each in diagnosis.findings:
        told = card(each, gain(each, plan), gain(each, plan, short=True), changes)
        pointers = [line for line in told.advice if line.startswith("See change")]
        numbers = [int(one) for line in pointers for one in NUMBER.findall(line)]
        beside = BESIDE.fullmatch(told.gives)
        if each.fix:
            assert numbers == [ids.index(each.fix) + 1]
        assert (beside is not None) is bool(each.fix and not each.leads)
        if beside is not None:
            assert [int(beside[1])] == numbers
        if told.gives:
            assert f"{each.title} ({told.gives}) [{each.severity}]" in report


def tells_a_gain_once(*files: Path) -> None:
    """And never above what it mends costs."""
    diagnosis, plan = diagnosed(*files), plan_of(analysed(*files))
    leaders = [each for each in diagnosis.findings if each.fix and each.leads]
    assert len({each.fix for each in leaders}) == len(leaders)
    for each in leaders:
        promise = promise_for(each, plan)
        assert promise is not None
        amount = each.headline.amount
        of_some_steps = isinstance(amount, Part) and amount.few  # its share is that of all steps
        if not promise.proposal.redesign and not of_some_steps:
            named = promise.proposal.categories
            beside = [other for other in diagnosis.findings if other.fix == each.fix and not other.leads]
            told = sum(other.share for other in beside)
            assert (
                each.cost + (0.0 if each.category in named else told)
                >= 1 - 1 / max(promise.expected, 1.0) - 1e-9
            )
    for time in diagnosis.step_times.values():
        assert time.length_ns == pytest.approx(plan.replay.usual_ns, rel=0.01)


def shares_of_bars(*files: Path) -> list[tuple[str, float, float]]:
    """(title, share, that part of its GPU's bar) of each finding about idle time that every step has."""
    analysis, diagnosis = analysed(*files), diagnosed(*files)
    found = []
    for each in diagnosis.findings:
        amount, cause = each.headline.amount, each.category.about
        if not isinstance(cause, Cause) or not isinstance(amount, Part) or each.device is None:
            continue
        if amount.few or each.rule not in IDLE_RULES:
            continue
        parts = time_parts(analysis, diagnosis, each.device)
        ns = next((ns for key, _, ns in parts.parts if key == cause.key), 0)
        found.append((each.title, amount.share, ns / parts.whole_ns))
        assert amount.share == each.share
    return found


def tells_shares_of_the_bar(*files: Path) -> None:
    for title, share, of_bar in shares_of_bars(*files):
        assert share == pytest.approx(of_bar, abs=0.005), title


@pytest.mark.thorough  # every day by the ranks among ``CHOSEN``
@pytest.mark.parametrize("folder", ["ddp", "second/ddp"])
def test_of_several_ranks_the_share_is_that_of_the_bar_of_the_rank_that_idles_most(
    folder: str, shared_data: Path
) -> None:
    runs = sorted({path.name.split(".rank")[0] for path in (shared_data / folder).glob("*.rank*.gz")})
    told = 0
    for run in runs:
        for title, share, of_bar in shares_of_bars(*sorted((shared_data / folder).glob(f"{run}.rank*.gz"))):
            assert share == pytest.approx(of_bar, abs=0.005), (run, title)
            told += 1
    assert told >= len(runs) // 2


def test_a_late_rank_costs_what_the_others_wait_for_it(shared_data: Path) -> None:
    """Never more than the bars of the others show as communication, and told once."""
    files = sorted((shared_data / "ddp").glob("straggler_cpu.rank*.gz"))
    diagnosis = diagnosed(*files)
    first, data = diagnosis.findings[:2]
    waiting = max(
        each.parts["communication"] / each.length_ns
        for device, each in diagnosis.step_times.items()
        if device != first.device
    )
    assert 0.5 * waiting < first.share <= waiting
    assert isinstance(first.headline.amount, Part)
    assert first.headline.amount.share == first.share
    assert "with delays" not in first.title
    assert (first.rank, data.rank) == (1, 1)
    assert data.share > 0.5


PROMISES = re.compile(r"\d(?:\.\d+)?x(?: to \d[\d.]*x)? faster")
DOUBTS = re.compile(
    r"of little use|hardly faster|no gain|costs? nothing|no difference|not worth|(?:no|not) faster(?! than)|not help|"
    r"nothing to gain",
    re.IGNORECASE,
)


def is_contradictory(text: str) -> bool:
    return bool(PROMISES.search(text) and DOUBTS.search(text))


def promised_and_doubted(*files: Path) -> list[str]:
    """What is told as worth mending and as useless at once: the first thing to do, and the card of each finding."""
    analysis, diagnosis = analysed(*files), diagnosed(*files)
    plan = plan_of(analysis)
    changes = numbers_of_changes(plan.promises, Reader.of(analysis.trace))
    told = [first_step(plan, diagnosis)]
    for each in diagnosis.findings:
        shown = card(each, gain(each, plan), gain(each, plan, short=True), changes)
        texts = (shown.title, shown.gives, shown.explanation, *shown.advice, shown.code, shown.cannot_tell)
        told.append(" ".join(texts))
    return [each for each in told if is_contradictory(each)]


@pytest.mark.parametrize(
    ("text", "contradicts"),
    [
        ("Do this first, about 1.9x faster: allow TF32. It is of little use while the GPU waits.", True),
        ("about 1.9x faster. Matrix products run without tensor cores.", False),
        ("Do this first, 4.4x to 45x faster: k requests are no faster than the GPU can compute.", False),
        ("Tensor cores are of little use while the GPU waits.", False),
        ("Do this first, 1.20x to 2.8x faster: compile the model, which makes no difference.", True),
    ],
)
def test_a_promise_beside_a_doubt_is_found(text: str, contradicts: bool) -> None:
    assert is_contradictory(text) is contradicts


@pytest.mark.parametrize("name", CHOSEN)
def test_all_that_is_said_of_a_recording_agrees(name: str) -> None:
    """All in one test, since each recording is diagnosed for it."""
    files = RECORDINGS[name]
    begins_with_the_same_cause(*files)
    names_one_change(*files)
    tells_a_gain_once(*files)
    tells_shares_of_the_bar(*files)
    assert promised_and_doubted(*files) == []


@pytest.mark.thorough
def test_of_full_size_nothing_is_promised_and_doubted_at_once(shared_data: Path) -> None:
    runs: dict[str, list[Path]] = {}
    for path in sorted((shared_data / "real").glob("*")):
        if path.name.endswith((".trace.json.gz", ".sqlite")):
            runs.setdefault(path.name.split(".rank")[0], []).append(path)
    told = {name: promised_and_doubted(*files) for name, files in runs.items()}
    assert len(told) > 40
    assert {name: texts for name, texts in told.items() if texts} == {}


def test_tensor_cores_are_promised_without_a_doubt(shared_data: Path) -> None:
    path = shared_data / "real" / "lm.pt.trace.json.gz"
    assert promised_and_doubted(path) == []
    report = as_text(analysed(path).trace, diagnosed(path), analysed(path))
    assert report.startswith("Matrix products without tensor cores: ")
    assert "Do this first, about" in report


def test_where_the_profiler_takes_nothing_the_reports_still_tell_of_a_step() -> None:
    sample = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    analysis, diagnosis = analysed(sample), diagnosed(sample)
    start, end = analysis.window
    whole = round((end - start) / 5)
    time = time_parts(analysis, diagnosis, 0)
    assert (time.whole_ns, time.of) == (whole, f"a step of {duration(whole)}")
    assert sum(ns for _, _, ns in time.parts) == pytest.approx(whole, abs=10)
    for told in (as_text(analysis.trace, diagnosis, analysis), as_html(analysis.trace, diagnosis, analysis)):
        assert f"a step of {duration(whole)}" in told.replace("\u00a0", " ")


def test_a_page_and_a_terminal_call_each_kernel_by_its_short_name_alone() -> None:
    sample = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    kernels, *_ = tables_blocks(rows_that_matter(analysed(sample)), 20, 5)
    assert kernels.columns == ("name", "calls", "total", "gpu time")
    assert [each for each in kernels.rows if "<" in each[0] or each[0].startswith("void ")] == []


def test_what_was_noted_of_several_kinds_of_events_is_said_once_with_their_number(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "ts": number * 10, "dur": 5, "pid": 1, "tid": 1, "name": "work"} for number in range(4)
    ]
    events += [{"ph": phase, "ts": 3, "pid": 1, "tid": 1, "name": "object", "id": 1} for phase in "NODNN"]
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"traceEvents": events}))
    report = " ".join(as_text(opened(path), diagnosed(path), analysed(path)).split())
    assert report.count("of a phase that a timeline cannot show") == 1
    assert "of a phase that a timeline cannot show (5 times)" in report
