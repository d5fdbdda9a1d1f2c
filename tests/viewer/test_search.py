"""Searching names: what matches, in which order, and walking the events found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from parsers.model import Trace
from viewer.statistics.event_search import Walk, events_named, fuzzy_score, matching_names

from .conftest import KERNELS, STEPS


def names(trace: Trace, query: str, *, regex: bool = False) -> list[str]:
    return [trace.strings[name] for name in matching_names(trace, query, regex=regex).names]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("linear", "linear", "aten::linear_backward"),
        ("linear", "aten::linear", "bilinear"),
        ("linear", "bilinear", "l_i_n_e_a_r"),
        ("alr", "AllReduce", "animal burrow"),
    ],
)
def test_a_closer_match_scores_higher(query: str, better: str, worse: str) -> None:
    assert fuzzy_score(query, better) > fuzzy_score(query, worse)


@pytest.mark.parametrize(("query", "text"), [("xyz", "linear"), ("raenil", "linear"), ("linearr", "linear")])
def test_letters_that_are_missing_or_out_of_order_do_not_match(query: str, text: str) -> None:
    assert fuzzy_score(query, text) == 0


def test_names_are_found_with_their_counts(trace: Trace) -> None:
    found = matching_names(trace, "sgemm")
    assert [trace.strings[name] for name in found.names] == ["ampere_sgemm_128x64"]
    assert found.events == STEPS * KERNELS // 2


def test_capitals_make_no_difference(trace: Trace) -> None:
    assert names(trace, "CUDALAUNCH") == ["cudaLaunchKernel"]


def test_a_regular_expression_matches_anywhere_in_the_name(trace: Trace) -> None:
    assert set(names(trace, r"s(gemm|oftmax)_", regex=True)) == {"ampere_sgemm_128x64", "softmax_warp"}
    assert names(trace, r"^linear", regex=True) == []


def test_a_wrong_regular_expression_is_an_error(trace: Trace) -> None:
    with pytest.raises(re.error):
        matching_names(trace, "(", regex=True)


def test_a_name_without_events_is_not_found(trace: Trace) -> None:
    assert names(trace, "run.json") == []


def test_walking_goes_round_in_both_directions(trace: Trace) -> None:
    events = events_named(trace, [trace.strings.index("tokenize")])
    walk = Walk(trace, events, "tokenize")
    assert np.all(np.diff(trace.events.start[events]) > 0)
    first = walk.start_at(0)
    assert first == events[0]
    assert walk.move(-1) == events[-1]
    assert walk.text == f"{STEPS} of {STEPS}"
    assert walk.move(1) == first


def test_a_walk_starts_at_the_place_one_looks_at(trace: Trace) -> None:
    events = events_named(trace, [trace.strings.index("tokenize")])
    second = int(trace.events.start[events[1]])
    assert Walk(trace, events, "").start_at(second) == events[1]
    assert Walk(trace, events, "").start_at(second + 1) == events[2]
    assert Walk(trace, events, "").start_at(10**12) == events[0]
