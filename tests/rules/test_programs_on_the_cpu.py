"""Programs on the CPU, recorded with stacks and without: the same cause by name, about as large."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from rules import Finding
from tests.opened import diagnosed

CAUSES = {
    "double": "cpu-double-precision",
    "attention": "cpu-written-out-attention",
    "twice": "cpu-computed-twice",
    "items": "cpu-item-loop",
    "layers": "cpu-small-operators",
    "frozen": "cpu-unused-gradients",
}
NAMED = frozenset(CAUSES.values())
ENDINGS = ("", ".stacks")
AS_MUCH = 1.3  # times the gain that the other recording says is possible


def causes(fixtures: Path, program: str, ending: str) -> dict[str, Finding]:
    found = diagnosed(fixtures / "cpu" / f"{program}{ending}.pt.trace.json.gz").findings
    return {each.rule: each for each in found if each.rule in NAMED}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("program", CAUSES)
def test_the_planted_cause_is_named_and_no_other(fixtures: Path, program: str, ending: str) -> None:
    assert set(causes(fixtures, program, ending)) == {CAUSES[program]}


@pytest.mark.parametrize("program", CAUSES)
def test_stacks_change_little_of_what_is_possible(fixtures: Path, program: str) -> None:
    gains = [causes(fixtures, program, each)[CAUSES[program]].speedup_at_most for each in ENDINGS]
    assert gains[0] is not None
    assert gains[1] is not None
    assert 1 / AS_MUCH <= gains[0] / gains[1] <= AS_MUCH


@pytest.mark.parametrize(
    ("program", "crowded"),
    [("crowded", True), ("crowded_training", True), ("layers", False), ("attention", False)],
)
def test_more_threads_than_cores_are_told_by_slow_small_products(
    fixtures: Path, program: str, crowded: bool
) -> None:
    found = diagnosed(fixtures / "cpu" / f"{program}.stacks.pt.trace.json.gz").findings
    (limit,) = [each for each in found if each.rule == "cpu-recording"]
    assert limit.title.startswith("The CPU's operators are the limit")
    assert limit.advice[0].startswith("Try one thread") is crowded


@pytest.mark.parametrize("program", ["sleeping", "paced"])
@pytest.mark.parametrize(("ending", "tells"), [(".stacks", True), ("", False)])
def test_a_batcher_that_sleeps_is_told_so_where_frames_were_recorded(
    fixtures: Path, program: str, ending: str, tells: bool
) -> None:
    found = diagnosed(fixtures / "cpu" / f"{program}{ending}.pt.trace.json.gz").findings
    (outside,) = [each for each in found if each.rule == "cpu-outside-operators"]
    assert outside.title.startswith("Code outside PyTorch's operators, mostly sleeping: ") is tells
    assert any("queue.get()" in each for each in outside.advice) is tells


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("program", "checks"), [("checked", True), ("crowded_training", False)])
def test_anomaly_detection_is_told_where_it_is_on(
    fixtures: Path, program: str, ending: str, checks: bool
) -> None:
    found = diagnosed(fixtures / "cpu" / f"{program}{ending}.pt.trace.json.gz").findings
    assert ("anomaly-detection" in {each.rule for each in found}) is checks


@pytest.mark.parametrize(("ending", "stated"), [(".stacks", True), (".stacks", False), ("", False)])
def test_stacks_are_asked_for_where_no_frames_were_recorded(
    fixtures: Path, tmp_path: Path, ending: str, stated: bool
) -> None:
    text = gzip.decompress((fixtures / "cpu" / f"layers{ending}.pt.trace.json.gz").read_bytes())
    (tmp_path / "layers.pt.trace.json").write_bytes(
        text if stated else re.sub(rb'"(with_stack|record_shapes|profile_memory)": 1,', b"", text)
    )
    (found,) = [
        each
        for each in diagnosed(tmp_path / "layers.pt.trace.json").findings
        if each.rule == "cpu-small-operators"
    ]
    assert any("--stacks" in each for each in found.unknown) is (ending == "")
