"""Values that follow from a holder and from more are computed once for each of these."""

from __future__ import annotations

from parsers.model.derived import DerivedValues, derived_by


class _Holder:
    def __init__(self) -> None:
        self.derived_values = DerivedValues()
        self.asked: list[tuple[int, ...]] = []


@derived_by
def _none_for(holder: _Holder, *numbers: int) -> None:
    holder.asked.append(numbers)


@derived_by
def _sum_of(holder: _Holder, *numbers: int) -> int:
    holder.asked.append(numbers)
    return sum(numbers)


def test_each_is_computed_once_for_what_it_is_asked_for():
    holder = _Holder()
    assert [_sum_of(holder, 1, 2), _sum_of(holder, 3), _sum_of(holder, 1, 2)] == [3, 3, 3]
    assert holder.asked == [(1, 2), (3,)]


def test_holders_and_functions_keep_their_values_apart():
    holder, other = _Holder(), _Holder()
    assert (_sum_of(holder, 1), _none_for(holder, 1), _sum_of(other, 1)) == (1, None, 1)
    assert _none_for(holder, 1) is None
    assert (holder.asked, other.asked) == ([(1,), (1,)], [(1,)])
