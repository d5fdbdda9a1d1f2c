"""The first sentence, the first card, the first line of What if, the page and the JSON of a recording agree."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from rules.causes import leading
from rules.fixes.plan import plan_of
from rules.verdict.promises import first_step, gain, promise_for
from rules.verdict.verdict import verdict
from rules.wording.headline import Part
from tests.opened import analysed, diagnosed
from viewer.reports.diagnosis_report import diagnosis_report
from viewer.reports.fixes_report import fixes_text
from viewer.reports.json_report import as_json
from viewer.reports.text_report import WIDTH, as_text

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PROGRAMS = FIXTURES / "programs"
SINGLE = [
    *sorted(PROGRAMS.glob("*.pt.trace.json.gz")),
    *sorted(PROGRAMS.glob("*.trace.json.gz")),
    *sorted(PROGRAMS.glob("*.sqlite.gz")),
    *sorted((FIXTURES / "pairs").glob("*.gz")),
]
RECORDINGS = {path.name: (path,) for path in SINGLE if ".rank" not in path.name}
RECORDINGS |= {
    name: tuple(sorted(PROGRAMS.glob(f"{name}.rank*.gz")))
    for name in sorted({path.name.split(".rank")[0] for path in PROGRAMS.glob("*.rank*.gz")})
}
ONE_OF = 3  # of so many, `make test` compares one
CHOSEN = [
    pytest.param(name, marks=pytest.mark.thorough if number % ONE_OF else ())
    for number, name in enumerate(sorted(RECORDINGS))
]


def test_at_least_forty_recordings_are_compared() -> None:
    assert len(RECORDINGS) // ONE_OF >= 40


@pytest.mark.parametrize("name", CHOSEN)
def test_every_answer_begins_with_the_same_cause(name: str) -> None:
    files = RECORDINGS[name]
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
        assert " ".join(whatif).startswith(f"The biggest problem, but with no known gain: {first.title}")
    assert textwrap.wrap(f"1. {promise.proposal.title}", WIDTH)[0] in whatif
    assert promise.proposal.title in " ".join(do_first.split())


@pytest.mark.parametrize("name", CHOSEN)
def test_a_gain_is_told_once_and_never_below_the_share_beside_it(name: str) -> None:
    files = RECORDINGS[name]
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
                each.share + (0.0 if each.category in named else told)
                >= 1 - 1 / max(promise.expected, 1.0) - 1e-9
            )
    for time in diagnosis.step_times.values():
        assert time.length_ns == pytest.approx(plan.replay.usual_ns, rel=0.01)


def test_no_sentence_promises_and_doubts(shared_data: Path) -> None:
    path = shared_data / "real" / "lm.pt.trace.json.gz"
    report = " ".join(as_text(analysed(path).trace, diagnosed(path), analysed(path)).split())
    assert "of little use" not in report
    assert report.startswith("Matrix products without tensor cores: ")
    assert "Do this first, about" in report
