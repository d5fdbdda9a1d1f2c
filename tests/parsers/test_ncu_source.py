"""The source page of Nsight Compute: instructions with their samples, joined with the launches of the same kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import TraceError
from viewer.panels.kernel.kernel_details import KernelDetails
from viewer.statistics.kernel_source import hottest, source_frame

HEADER = (
    '"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)",'
    '"Instructions Executed","stall_long_sb","stall_wait","stall_selected","stall_long_sb (Not Issued)"'
)
ROWS = (
    '"1","0x7f0000000a00","      LDG.E R2, [R4.64]","12","10","4,096","2","6","4","2"',
    '"2","0x7f0000000a10","      FADD R3, R2, 1","1,288","1200","4096","1200","80","8","1190"',
    '"3","0x7f0000000a20","@P0   BRA `(.L_x_1), 7","0","0","8192","0","0","0","0"',
)


def page(folder: Path, kernel: str, rows: tuple[str, ...] = ROWS, header: str = HEADER) -> Path:
    path = folder / "source.csv"
    path.write_text("\n".join(['"Kernel Name","' + kernel + '"', header, *rows]), "utf-8")
    return path


def test_instructions_have_samples_stalls_and_counts(tmp_path: Path) -> None:
    (kernel,) = open_trace([page(tmp_path, "add(float *, int)")]).kernels
    source = kernel.source
    assert kernel.name == "add(float *, int)"
    assert source is not None
    assert source.address == (0, 0x10, 0x20)
    assert source.text[2] == "@P0   BRA `(.L_x_1), 7"
    assert source.samples == (12, 1288, 0)
    assert source.executed == (4096, 4096, 8192)
    assert source.stalls == {"long_scoreboard": (2, 1200, 0), "wait": (6, 80, 0), "selected": (4, 8, 0)}


def test_the_hottest_line_is_told_with_what_it_waits_for(tmp_path: Path) -> None:
    (kernel,) = open_trace([page(tmp_path, "add")]).kernels
    assert kernel.source is not None
    frame = source_frame(kernel.source)
    assert frame["share"].tolist() == pytest.approx([12 / 1300, 1288 / 1300, 0])
    assert frame["stall"].tolist()[2] == ""
    assert frame["stalled"].tolist()[:2] == pytest.approx([0.5, 1200 / 1288])
    assert hottest(frame).startswith("Line 2 has 99")
    assert "FADD R3, R2, 1" in hottest(frame)


def test_a_page_belongs_to_the_launches_of_its_kernel(tmp_path: Path, qtbot: QtBot) -> None:
    report = resources.path("samples/kernels.raw.csv.gz")
    alone = open_trace([report]).kernels
    named = next(each for each in alone if "copy_strided" in each.name)
    trace = open_trace([report, page(tmp_path, named.name)])
    assert len(trace.kernels) == len(alone)
    with_source = [each for each in trace.kernels if each.source is not None]
    assert {each.name for each in with_source} == {named.name}
    details = KernelDetails()
    qtbot.addWidget(details)
    details.show_kernel(with_source[0])
    assert details.source.table.rows.rowCount() == len(ROWS)
    assert "FADD" in details.source.note.text()
    details.show_kernel(alone[0])
    assert "--page source" in details.source.note.text()


def test_a_page_of_lines_without_addresses_or_samples_is_read(tmp_path: Path) -> None:
    header = '"#","Source","Instructions Executed"'
    path = page(tmp_path, "add", ('"1","x[i] = 1;","32"', '"cut'), header)
    (kernel,) = open_trace([path]).kernels
    assert kernel.source is not None
    assert kernel.source.address == (-1,)
    assert "no samples" in hottest(source_frame(kernel.source))


def test_an_empty_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no instructions"):
        open_trace([page(tmp_path, "add", ())])
