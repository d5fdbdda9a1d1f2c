"""Searching names word by word finds what searching them whole finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsers.model.names import collectives
from rules.analysis.names import families
from rules.analysis.names.patterns import NamePatterns, alternatives, needed_text
from tests.opened import opened

PATTERNS = [
    *((pattern, re.IGNORECASE) for _, pattern in families._FAMILIES),
    *((pattern, 0) for _, pattern in families._DTYPES),
    *((pattern, re.IGNORECASE) for pattern in (families._TENSOR_CORE, families._NO_TENSOR_CORE)),
    *((pattern, re.IGNORECASE) for pattern in (families._VECTOR_PRODUCT, families._BARE_TF32)),
]
COMPILED = [re.compile(pattern, flags) for pattern, flags in PATTERNS]
READER = NamePatterns(PATTERNS)
LITERALS = sorted(
    {
        word
        for pattern in (*(pattern for pattern, _ in PATTERNS), collectives._LIBRARY.pattern)
        for word in re.findall(r"[A-Za-z0-9_]{2,}", pattern)
    }
)
BETWEEN = ["", "_", "::", " ", "<", ">", "(", "[", "\n", "1", "x", "ſ", "\u212a", "é"]
names = st.lists(st.sampled_from(LITERALS + BETWEEN), max_size=8).map("".join)


def same(name: str) -> bool:
    found = READER.read(name)
    return [number in found for number in range(len(COMPILED))] == [
        pattern.search(name) is not None for pattern in COMPILED
    ]


@given(names)
@example("convert")
@example("triton_mm")
@example("CUDNN::ops")
@example("volta_sgemm tensorop")
@example("\u212aernel_index_\u212aernel")
@example("a_mm\n")
def test_any_name_is_found_to_hold_what_searching_it_whole_finds(name: str) -> None:
    assert same(name)
    assert same(name.swapcase())


@given(st.lists(st.sampled_from([*LITERALS, *"0123456789", "_"]), max_size=6).map("".join))
@example("kernel_16888")
@example("tensorop_s16")
@example("i18")
def test_words_with_any_numbers_are_found_to_hold_what_searching_them_whole_finds(name: str) -> None:
    assert same(name)


def test_a_digit_more_before_or_after_a_number_that_patterns_speak_of_is_noticed() -> None:
    numbered = [word for word in LITERALS if re.search(r"\d", word)]
    assert len(numbered) > 30
    for word in numbered:
        for edge in {place for found in re.finditer(r"\d+", word) for place in found.span()}:
            for digit in "01268":
                assert same(f"{word[:edge]}{digit}{word[edge:]}")
                assert same(f"s{word[:edge]}{digit}{word[edge:]}_h")


@pytest.mark.parametrize("recording", ["torch/memory_stack.pt.trace.json.gz", "nsys/fp32_gemm.sqlite.gz"])
def test_recorded_names_are_found_to_hold_what_searching_them_whole_finds(
    fixtures: Path, recording: str
) -> None:
    strings = opened(fixtures / recording).strings
    assert len(strings) > 20
    assert all(same(name) for name in strings)


@given(names)
def test_the_first_pattern_found_is_the_first_in_the_order_of_their_numbers(name: str) -> None:
    found = READER.read(name)
    every = [number for number in range(len(COMPILED)) if COMPILED[number].search(name)]
    for numbers in (range(len(COMPILED)), range(5, 12), range(12, len(COMPILED))):
        assert found.first(numbers) == next((number for number in every if number in numbers), -1)


@given(names)
def test_a_collective_is_recognised_as_by_its_pattern_alone(name: str) -> None:
    assert collectives.is_collective_kernel(name) == bool(collectives._LIBRARY.search(name))


def test_a_pattern_is_cut_where_no_bracket_is_open() -> None:
    assert alternatives(r"a(b|c)d|[|]e|\|f") == ["a(b|c)d", "[|]e", r"\|f"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"cudnn.*transpose", "transpose"),
        (r"(^|_)b?mm(_|\d|$)", "mm"),
        (r"^triton_(?!.*(mm|gemm))", "triton_"),
        (r"\[cuda memcpy", "cuda memcpy"),
        (r"x{2,3}[a-z]+\w*", ""),
    ],
)
def test_the_text_that_a_pattern_needs_leaves_out_what_may_be_missing(pattern: str, text: str) -> None:
    assert needed_text(pattern) == text
