from __future__ import annotations

import copy
import dataclasses
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from parsers.model.late import dataclass

# The cases lie on either side of these.
FEW = 16

KINDS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
]


def made(decorator: Callable[..., Any], how: dict[str, bool]) -> Any:
    """A class with everything that fields may be, as the decorator makes it."""

    class Place:
        of_all: ClassVar[int] = 1

        name: str
        numbers: list[int] = field(default_factory=list)
        note: str = field(default="none", compare=False)
        hidden: int = field(default=3, repr=False)
        fixed: int = field(default=7, init=False)
        kept: dict[str, int] = field(init=False, default_factory=dict)

    return decorator(**how)(Place)


@pytest.fixture(params=KINDS, ids=lambda how: "-".join(how) or "plain")
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return made(dataclasses.dataclass, request.param), made(dataclass, request.param)  # noqa: TID251


@pytest.mark.parametrize("words", [("a",), ("a", [1]), ("a", [1], "other", 4)])
def test_objects_have_the_same_fields_and_the_same_text(
    pair: tuple[Any, Any], words: tuple[Any, ...]
) -> None:
    theirs, ours = (each(*words) for each in pair)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert pair[0].__match_args__ == pair[1].__match_args__


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), {}),
        (("a", [], "", 1, 2), {}),
        (("a",), {"fixed": 1}),
        (("a",), {"name": "b"}),
        (("a",), {"x": 1}),
    ],
)
def test_what_the_library_refuses_to_make_is_refused(
    pair: tuple[Any, Any], words: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for each in pair:
        with pytest.raises(TypeError):
            each(*words, **named)
        assert each("good").name == "good"


def test_objects_are_equal_where_those_of_the_library_are(pair: tuple[Any, Any]) -> None:
    theirs, ours = ([each("a"), each("a", note="b"), each("b"), each("a", hidden=1)] for each in pair)
    assert [[one == other for other in ours] for one in ours] == [
        [one == other for other in theirs] for one in theirs
    ]
    assert ours[0] != theirs[0]
    assert ours[0] != "a"


def test_a_frozen_object_refuses_changes(pair: tuple[Any, Any]) -> None:
    for each in pair:
        one = each("a")
        if each.__setattr__ is object.__setattr__:
            one.name = "b"
            assert one.name == "b"
            continue
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.name = "b"
        with pytest.raises(dataclasses.FrozenInstanceError):
            del one.name
        assert one.name == "a"


def test_copies_and_replacements_are_those_of_the_library(pair: tuple[Any, Any]) -> None:
    for each in pair:
        one = each("a", [1])
        for other in (copy.copy(one), copy.deepcopy(one), dataclasses.replace(one, note="b")):
            assert dataclasses.asdict(other) == {**dataclasses.asdict(one), "note": other.note}
        assert dataclasses.replace(one, note="b").note == "b"
        assert one.numbers is not each("a").numbers
        assert one.kept is not each("a").kept


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = ""

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.name)

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(slots=True)
class Circle:
    inner: Circle | None = None


def test_frozen_objects_with_equal_fields_are_one_key() -> None:
    assert {Point(1): "first", Point(1, 0.0): "again", Point(2): "other"} == {
        Point(1): "again",
        Point(2): "other",
    }
    assert Named(1) != Point(1)


def test_fields_of_the_class_below_come_first_and_its_own_methods_stay() -> None:
    assert Named(1, 2.0, "n") == Named(1, 2.0, name="n")
    assert repr(Named(1, name="n")) == "<n>"
    with pytest.raises(ValueError, match="bad"):
        Named(-1, name="bad")
    match Named(1, 2.0, "n"):
        case Named(x, _, name):
            assert (x, name) == (1, "n")


def test_what_can_change_is_no_key() -> None:
    with pytest.raises(TypeError):
        hash(Circle())


def test_an_object_inside_itself_is_shown() -> None:
    circle = Circle()
    circle.inner = circle
    assert repr(circle) == "Circle(inner=...)"


def test_slots_keep_other_names_out_and_may_be_referred_to_weakly() -> None:
    @dataclass(slots=True, weakref_slot=True)
    class Held:
        name: str

    held = Held("a")
    assert weakref.ref(held)() is held
    with pytest.raises(AttributeError):
        held.other = 1  # type: ignore[attr-defined]


def test_how_objects_are_made_is_compiled_once_there_are_many() -> None:
    @dataclass(frozen=True)
    class Counted:
        name: str
        names: list[str] = field(default_factory=list)

    before = Counted.__init__
    objects = [Counted("a") for _ in range(FEW)]
    assert Counted.__init__ is before
    objects += [Counted("a"), Counted("a")]
    assert Counted.__init__ is not before
    assert Counted.__init__.__code__.co_varnames == ("self", "name", "names")
    assert all(each == objects[0] for each in objects)
    assert len({id(each.names) for each in objects}) == len(objects)


def test_what_is_refused_leaves_the_rest_as_it_is(pair: tuple[Any, Any]) -> None:
    for each in pair:
        for _ in range(2 * FEW):
            with pytest.raises(TypeError):
                each()
            assert dataclasses.asdict(each("a", [2])) == {
                "name": "a", "numbers": [2], "note": "none", "hidden": 3, "fixed": 7, "kept": {},
            }  # fmt: skip


def test_a_class_of_the_library_may_stand_upon_one_of_ours() -> None:
    @dataclasses.dataclass(frozen=True)  # noqa: TID251
    class Above(Named):
        more: int = 0

    assert [each.name for each in dataclasses.fields(Above)] == ["x", "y", "name", "more"]
    assert dataclasses.asdict(Above(1, more=2)) == {"x": 1, "y": 0.0, "name": "", "more": 2}
    with pytest.raises(TypeError):
        dataclasses.dataclass(type("Loose", (Point,), {}))  # noqa: TID251
