"""A figure of a finding is the sum of rows, and the question that adds them up gives that sum."""

from __future__ import annotations

import pytest

import resources
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from tests.opened import analysed, diagnosed
from viewer.query.database import database_of
from viewer.query.explained import can_be_explained, explained


@pytest.mark.parametrize("sample", ["cpu_python", "pageable_copy"])
def test_the_sum_is_the_part_of_the_budget_that_a_finding_is_about(sample: str) -> None:
    path = resources.path(f"samples/{sample}.pt.trace.json.gz")
    analysis, diagnosis = analysed(path), diagnosed(path)
    budget, told = analysis.budgets(0), 0
    for finding in diagnosis.findings:
        question, about = explained(finding, analysis), finding.category.about
        assert (question is not None) is can_be_explained(finding)
        if question is None:
            continue
        (row,) = database_of(analysis).run(question.sql).frame.to_dict("records")
        part = budget.idle_ns[about] if isinstance(about, Cause) else budget.exposed_copy_ns
        assert isinstance(about, Cause) or about is Family.COPY
        assert row["total_ns"] == pytest.approx(part, rel=0.001)
        assert row["a_step_ns"] * analysis.steps_in_window == pytest.approx(part, rel=0.001)
        assert row["percent"] == pytest.approx(100 * finding.recorded_share, abs=1.5)
        told += 1
    assert told
