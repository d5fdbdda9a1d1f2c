"""How many examples a property is tried on every day, and how many of many like cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

MORE = 100  # examples of a property that names no number, in the profile of .ci/run


def examples(count: int, **named: Any) -> settings:
    """Settings for ``count`` examples, and for a third of them in the profile of every day."""
    every_day = settings.default is not None and settings.default.max_examples < MORE
    return settings(max_examples=count // 3 if every_day else count, **named)


def one_of(count: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test that shows the same of many like cases: every day of one in ``count``, from the first on."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.thorough if number % count else (),
        )
        for number, case in enumerate(cases)
    ]


def any_text(max_size: int) -> st.SearchStrategy[str]:
    """Any text that can be encoded; ``st.text`` first finds out which characters that are, for more than a second."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)
