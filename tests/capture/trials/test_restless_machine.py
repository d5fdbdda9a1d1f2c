"""No gains are told where the program differs as much from itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.trials.test_trying import blocks, ended, run, usual
from viewer.capture.trials.account import Account
from viewer.capture.trials.launch import Launched, Order


def test_a_restless_machine_gives_no_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials, orders, _ = run(tmp_path, monkeypatch, usual({"control": 1.2, "tf32": 2.0}), "tf32")
    assert trials.restless
    assert [each.gain for each in trials.trials] == [None]
    assert len(orders) == 1


@pytest.mark.parametrize(("gain", "told"), [(4.0, False), (27.0, True)])
def test_a_gain_is_told_only_where_it_is_more_than_the_program_differs_by_from_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gain: float, told: bool
) -> None:
    """On a loaded machine, blocks of the same program take up to three times as long, some of each kind."""

    def answer(order: Order) -> Launched:
        loaded = [1.0, 3.0, 2.5, 1.1, 1.2, 2.8, 2.2, 1.0, 1.1, 2.4, 2.6, 1.2]
        still = [
            replace(block, ns=1e7 * load) for block, load in zip(blocks("control", 1.0), loaded, strict=True)
        ]
        account = Account(blocks=(*still, *blocks("tf32", gain)), program={"trains": False}, ended="complete")
        return Launched(account, ended())

    trials, *_ = run(tmp_path, monkeypatch, answer, "tf32")
    assert trials.control is not None
    assert trials.control.gain is not None
    assert not trials.control.gain.is_seen, "the control alone gives no reason"
    assert trials.restless is not told
    assert [each.gain is not None for each in trials.trials] == [told]
    assert bool(trials.winners) is told
