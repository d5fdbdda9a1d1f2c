"""Searching names: what matches, in which order, and walking the events found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from parsers.model import Trace
from viewer.statistics.event_search import Walk, events_named, match_score, matching_names, similarity

from .conftest import KERNELS, STEPS


def names(trace: Trace, query: str, *, regex: bool = False) -> list[str]:
    return [trace.strings[name] for name in matching_names(trace, query, regex=regex).names]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("linear", "linear", "aten::linear_backward"),
        ("linear", "aten::linear", "bilinear"),
        ("add kernel", "add kernel", "kernel that adds"),
        ("add kernel", "kernel that adds", "kernel that divides"),
    ],
)
def test_a_closer_match_scores_higher(query: str, better: str, worse: str) -> None:
    assert match_score(query, better) > match_score(query, worse)


def test_scattered_letters_are_no_match_but_may_be_similar() -> None:
    assert match_score("alr", "AllReduce") == 0
    assert 50 > similarity("alr", "AllReduce") > similarity("alr", "animal burrow")


@pytest.mark.parametrize(("query", "text"), [("xyz", "linear"), ("raenil", "linear"), ("linearr", "linear")])
def test_letters_that_are_missing_or_out_of_order_are_not_even_similar(query: str, text: str) -> None:
    assert match_score(query, text) == similarity(query, text) == 0


def test_what_is_only_similar_is_offered_apart_and_never_counted(trace: Trace) -> None:
    found = matching_names(trace, "cdlaunch")
    assert (found.names, found.events) == ((), 0)
    assert [trace.strings[name] for name in found.similar] == ["cudaLaunchKernel"]
    assert matching_names(trace, "launch").similar == ()


def test_words_match_in_any_order(trace: Trace) -> None:
    assert names(trace, "kernel cuda") == ["cudaLaunchKernel"]


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
