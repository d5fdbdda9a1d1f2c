"""A launch that a page of unified memory held up does not take long by how it was launched."""

from __future__ import annotations

import pytest

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.held_up import held_up_by_pages
from rules.catalog.empty_sms import TooFewThreads
from rules.catalog.few_warps import FewWarps
from rules.findings.base import Rule
from tests.rules.builder import TinyTrace


def traced(
    took_us: float = 500.0, others: int = 3, page_us: float = 250.0, other: str = "flag", blocks: int = 1
) -> Trace:
    """A kernel's short launches, and a long one during which a page moves, or after which."""
    trace = TinyTrace()
    for number in range(others):
        at = 100.0 + 60 * number
        trace.operation(at, at + 50, other, at - 20, grid=blocks, block=256)
    trace.operation(1_000, 1_000 + took_us, "flag", 990, grid=blocks, block=256)
    trace.copy(1_000 + page_us, 1_002 + page_us, "HtoD", unified=True)
    return trace.build()


@pytest.mark.parametrize(
    ("trace", "held"),
    [
        (traced(), True),  # ten times as long
        (traced(took_us=499), False),
        (traced(others=2), True),
        (traced(others=1), False),
        (traced(page_us=501), False),  # the page comes later
        (traced(other="scan"), False),  # nothing tells how long it takes otherwise
    ],
)
def test_a_launch_is_held_up_that_takes_many_times_as_long_while_a_page_moves(
    trace: Trace, held: bool
) -> None:
    assert bool(len(held_up_by_pages(Analysis(trace), 0))) is held


@pytest.mark.parametrize(("page_us", "told"), [(250.0, False), (501.0, True)])
@pytest.mark.parametrize(("blocks", "rule"), [(1, TooFewThreads()), (132, FewWarps())])
def test_its_blocks_and_threads_are_not_what_makes_it_long(
    page_us: float, told: bool, blocks: int, rule: Rule
) -> None:
    found = list(rule.check(Analysis(traced(page_us=page_us, blocks=blocks))))
    assert any("flag runs for 500 us" in each.explanation for each in found) is told
