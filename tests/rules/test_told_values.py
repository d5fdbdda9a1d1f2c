"""Values that a loop reads back for work of the CPU go with that work where nothing else needs them."""

from __future__ import annotations

from typing import Any

import pytest

from rules.fixes.plan import Promise
from tests.rules.builder import TinyTrace
from tests.rules.test_fixes import plan_of_body


def described(
    kernels: tuple[str, ...] = ("abs", "reduce"),
    *,
    reads: bool = True,
    sends: bool = False,
    behind: tuple[str, ...] = (),
    batch: bool = False,
    work: float = 900,
) -> Promise:
    """What moving the CPU's work gives behind a loop that computes and reads a value for each of twelve tensors."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 10.0
        for _tensor in range(12):
            if sends:
                trace.copy(at + 8, at + 9, "HtoD", at, bytes=8)
                at += 20
            for name in kernels:
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel")
                at += 20
            if reads:
                trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
                trace.call(at + 6, at + 12, "cudaStreamSynchronize")
                at += 20
        for name in behind:
            if name == "read":
                trace.copy(at + 8, at + 9, "DtoH", at, bytes=8)
            else:
                trace.kernels(at, 1, 5, 20, f"void {name}_kernel")
            at += 20
        at += work
        if batch:
            trace.copy(at + 8, at + 20, "HtoD", at, bytes=1_000_000, pageable=True)
            at += 20
        trace.kernels(at, 1, 5, 20, "void next_kernel")

    made = plan_of_body(body, length=1200 + work)
    assert made.reason == ""
    return next(each for each in made.promises if each.proposal.fix == "move-host-phase")


def test_the_loop_that_reads_values_for_a_journal_goes_with_writing_it() -> None:
    told, kept = described(), described(("abs", "sm90_gemm_32x128_tn"))
    assert told.expected > 2 * kept.expected
    assert told.low < 1.1 * kept.expected
    assert "copy-d2h" in {each.value for each in told.proposal.categories}


@pytest.mark.parametrize(
    ("given", "goes"),
    [
        ({"behind": ("read",) * 4}, True),
        ({"behind": ("read",) * 5}, False),
        ({"behind": ("scale",)}, False),
        ({"sends": True}, False),
        ({"kernels": ("abs", "vectorized_layer_norm")}, False),
        ({"reads": False}, False),
        ({"batch": True}, False),
        ({"work": 500}, True),
        ({"work": 300}, False),
    ],
    ids=[
        "near",
        "not near",
        "then used",
        "sends",
        "of the model",
        "reads nothing",
        "makes a batch",
        "long work",
        "short work",
    ],
)
def test_values_that_something_else_may_need_are_still_computed(given: dict[str, Any], goes: bool) -> None:
    kept = described(("abs", "sm90_gemm_32x128_tn"), work=given.get("work", 900))
    assert (described(**given).expected > 2 * kept.expected) is goes
