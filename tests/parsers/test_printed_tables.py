"""Tables that profilers print behind a program's own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, Trace, UnknownFormat

TORCH = """epoch 1: loss 0.3
-------------  ------------  ------------  ------------
         Name    Self CPU %     CPU total    # of Calls
-------------  ------------  ------------  ------------
     aten::mm        56.47%       9.502s          7800
    aten::add         0.25%      42.10us             7
-------------  ------------  ------------  ------------
Self CPU time total: 17.807s
"""


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def rows(table: ResultTable) -> list[tuple[object, ...]]:
    return [tuple(row) for row in table.rows]


def test_what_torch_prints_ends_with_its_last_rule(tmp_path: Path) -> None:
    (table,) = opened(tmp_path, TORCH).tables
    assert table.title == "Operators of torch.profiler"
    assert rows(table) == [("aten::mm", 56.47, 9_502_000.0, 7800), ("aten::add", 0.25, 42.1, 7)]
    assert [each.unit for each in table.columns] == ["", "%", "us", ""]


def test_what_a_windows_shell_wrote_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(TORCH.encode("utf-16"))
    (table,) = open_trace([tmp_path / "job.log"]).tables
    assert table.column("Name") == ("aten::mm", "aten::add")


def test_without_its_header_a_text_is_no_table(tmp_path: Path) -> None:
    lines = [line for line in TORCH.splitlines() if "Self CPU %" not in line]
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "\n".join(lines))
