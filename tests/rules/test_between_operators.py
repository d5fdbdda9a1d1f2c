"""Work without a name is found by the operators on either side of it, where these are recorded."""

from __future__ import annotations

import pytest

from parsers.model.late import dataclass
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


@dataclass(frozen=True)
class Step:
    """Two stretches of Python between operators, the second of so many us."""

    second_us: float
    operators: bool = True

    def body(self, trace: TinyTrace, _: int) -> None:
        for at, end, before, after in (
            (0.0, 4_000.0, "aten::linear", "aten::relu"),
            (4_020.0, 4_020.0 + self.second_us, "aten::softmax", "aten::sort"),
        ):
            for begin, name in ((at, before), (end, after)):
                if self.operators:
                    trace.op(begin, begin + 8, name)
                trace.operation(begin + 5, begin + 15, "kernel", begin + 2)

    def advice(self) -> str:
        (made,) = [
            each
            for each in plan_of_body(self.body, length=4_040 + self.second_us).promises
            if each.proposal.fix == "move-host-phase"
        ]
        return " ".join(map(str, made.proposal.remedy.advice))


def test_each_place_is_told_with_what_it_takes() -> None:
    said = Step(1_500).advice()
    assert "between the calls of aten::linear and aten::relu (" in said
    assert "aten::softmax and aten::sort (" in said


@pytest.mark.parametrize(("second_us", "told"), [(480, True), (410, False)])
def test_a_place_of_a_tenth_of_the_work_leads_somewhere(second_us: float, told: bool) -> None:
    assert ("aten::softmax and aten::sort" in Step(second_us).advice()) is told


def test_without_operators_nobody_knows_where() -> None:
    assert "Look for it between" not in Step(1_500, operators=False).advice()
