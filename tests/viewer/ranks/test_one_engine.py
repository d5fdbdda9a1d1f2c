"""A run that is read in full and the same run joined from summaries of its ranks get one verdict, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import resources
from parsers import open_trace
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.late import Ranks
from rules.analysis.ranks.recorded import ranks_of
from rules.remedies.communication import keep_up
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.findings import diagnosis_of_many
from rules.wording.late_ranks import because, doing, explanation, late_names, when
from tests.examples import one_of
from tests.rank_runs import Run
from viewer.loading.ranks import summaries
from viewer.loading.ranks.opening import joined
from viewer.loading.ranks.reducing import reduce_rank
from viewer.loading.ranks.summaries import Wanted

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def both(files: list[Path]) -> tuple[Ranks[Any], ManyRanksDiagnosis]:
    reduced = [reduce_rank(Wanted((str(file),), file.name)) for file in files]
    made = [summaries.summary_of_bytes(each.content) for each in reduced]
    return ranks_of(Analysis(open_trace(files))), diagnosis_of_many(joined(made))[0]


def verdict(ranks: Ranks[Any]) -> dict[str, Any]:
    """All that is said of late ranks; what they cost at most is limited by a replay, and replays are not summarised."""
    late = (
        (
            late_names(ranks),
            because(ranks),
            explanation(ranks, ranks.lost_to_late),
            *map(str, keep_up(ranks).advice),
        )
        if ranks.late
        else ()
    )
    return {
        "told": late,
        "late": ranks.late,
        "lost": ranks.lost_to_late,
        "transfers": ranks.transfers_alone,
        "unrecorded": ranks.unrecorded,
        "collectives": [(each.collective, each.count, each.transfer_ns, each.waiting_ns) for each in ranks.collectives],
        "patterns": [
            (each.kind, each.name, each.late_ns, when(each.course, ranks.run.step_names), doing(why))
            for each, why in zip(ranks.patterns, ranks.pattern_reasons, strict=True)
        ],
    }  # fmt: skip


def agree(files: list[Path]) -> None:
    full, joined_run = both(files)
    assert full.waiting.tolist() == joined_run.waiting.tolist()
    assert full.lateness.charged == pytest.approx(joined_run.lateness.charged)
    assert full.run.step_names == joined_run.run.step_names
    assert verdict(full) == verdict(joined_run)


@pytest.mark.parametrize(
    "where",
    one_of(2, [FIXTURES / "ddp", resources.path("samples") / "straggler_four_ranks"]),
    ids=lambda each: each.name,
)
def test_recorded_runs_get_one_verdict(where: Path) -> None:
    agree(sorted(where.glob("*.gz")))


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Runs of few ranks in tensor, pipeline and data groups, sound or with faults of any kind and combination."""
    tensor, stages, copies = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    ranks = tensor * stages * copies
    some = st.integers(-1, ranks - 1)
    return Run(
        ranks=max(ranks, 2),
        tensor=tensor if ranks > 1 else 2,
        stages=stages,
        steps=draw(st.integers(3, 7)),
        operators=2,
        kernel_ns=120_000,
        straggler=draw(some),
        slow_compute=draw(st.sampled_from((1.02, 1.2, 1.6, 2.5))),
        since=draw(st.integers(0, 2)),
        every=draw(st.sampled_from((0, 0, 2, 3))),
        slow_group=draw(st.integers(-1, tensor * stages - 1)),
        slow_link=draw(st.sampled_from((1.5, 4.0))),
        slow_stage=draw(st.integers(-1, stages - 1)),
        slow_layers=draw(st.sampled_from((1.05, 1.3))),
        rotating=draw(st.booleans()),
    )


@pytest.mark.parametrize("more", [1, pytest.param(30, marks=pytest.mark.thorough)])
def test_simulated_runs_get_one_verdict(more: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=more)
    @given(simulated=runs())
    @example(
        simulated=Run(
            12, 4, 3, 3, 2, 120_000, straggler=7, since=2, slow_group=1, slow_link=6.0, slow_stage=1
        )
    )
    @example(simulated=Run(6, 9, 2, 3, 1, 120_000, straggler=4, every=3))
    @example(simulated=Run(6, 4, 3, 1, 1, 120_000, straggler=4))
    def gets_one_verdict(simulated: Run) -> None:
        agree(simulated.write(tmp_path_factory.mktemp("run")))

    gets_one_verdict()
