"""What the ranks of a trial wrote, put together line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from viewer.capture.trials.account import Account, account_of, block_of


def test_the_account_of_two_ranks_has_the_slowest_block_and_passes_over_damaged_lines(tmp_path: Path) -> None:
    line = '{"kind":"block","candidate":"x","variant":"B","steps":4,"slowest_ns":%d,"elements":8,"peak_bytes":%d}'
    first, second = tmp_path / "x.rank0.trial.jsonl", tmp_path / "x.rank1.trial.jsonl"
    first.write_text(
        "\n".join([line % (100, 7), line % (300, 7), '{"kind":"end","reason":"time"}', '{"kind":'])
    )
    second.write_text("\n".join(["[]", line % (200, 9), '{"kind":"losses","values":[1.5,null,"x",true]}']))
    account = account_of([first, second])
    assert [(each.ns, each.elements, each.peak_bytes, each.changed) for each in account.blocks] == [
        (200.0, 16.0, 9, True)
    ]
    assert account.ended == "time"
    second.write_text(
        second.read_text()
        + '\n{"kind":"refused","candidate":"x","reason":"no"}\n{"kind":"end","reason":"failed"}'
    )
    failed = account_of([first, second])
    assert (failed.ended, failed.refused) == ("failed", {"x": "no"}), "one rank is enough"
    assert account_of([second]).losses == (1.5, None, None, None)
    assert account_of([]) == Account()


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"kind": "block"},
        {"kind": "block", "steps": True, "slowest_ns": 5},
        {"kind": "block", "steps": 4, "slowest_ns": -1},
    ],
)
def test_a_line_that_is_no_block_is_none(line: dict[str, Any]) -> None:
    assert block_of(line) is None
