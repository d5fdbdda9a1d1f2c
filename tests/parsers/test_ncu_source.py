"""The source page of Nsight Compute: instructions with their samples, joined with the launches of the same kernel."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

import resources
from parsers import open_trace
from parsers.model import KernelProfile, KernelSource, TraceError
from parsers.ncu.cubin import read_cubin
from parsers.protobuf.wire import Damaged
from viewer.panels.kernel.kernel_details import KernelDetails
from viewer.panels.kernel.kernel_tables import BY_INSTRUCTION, SourceTable
from viewer.panels.tables.table_view import TableView
from viewer.statistics.kernel_source import hottest, lines_frame, source_frame

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


def test_the_hottest_instruction_is_told_with_what_it_waits_for(tmp_path: Path) -> None:
    (kernel,) = open_trace([page(tmp_path, "add")]).kernels
    assert kernel.source is not None
    frame = source_frame(kernel.source)
    assert frame["share"].tolist() == pytest.approx([12 / 1300, 1288 / 1300, 0])
    assert frame["stall"].tolist()[2] == ""
    assert frame["stalled"].tolist()[:2] == pytest.approx([50, 100 * 1200 / 1288])
    assert hottest(frame).startswith("Instruction 2 has 99")
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


@pytest.fixture(scope="session")
def report(fixtures: Path) -> tuple[KernelProfile, ...]:
    """Three launches of two kernels; one has a function inlined, and was launched twice."""
    return open_trace([fixtures / "ncu" / "lines.ncu-rep.gz"]).kernels


def source_of(kernel: KernelProfile) -> KernelSource:
    assert kernel.source is not None
    return kernel.source


def test_a_report_counts_for_each_instruction_what_its_page_prints(
    fixtures: Path, report: tuple[KernelProfile, ...]
) -> None:
    pages = open_trace([fixtures / "ncu" / "lines.source.csv.gz"]).kernels
    assert [each.name for each in report] == [
        each.name for each in pages
    ]  # though the tool prints each page twice
    for kernel, page in zip(report, pages, strict=True):
        ours, printed = source_of(kernel), source_of(page)
        assert sum(printed.samples) > 0
        assert (ours.address, ours.samples, ours.executed) == (
            printed.address,
            printed.samples,
            printed.executed,
        )
        assert dict(ours.stalls) == {
            reason: counts for reason, counts in printed.stalls.items() if any(counts)
        }


def test_a_report_knows_the_line_of_each_instruction(
    fixtures: Path, report: tuple[KernelProfile, ...]
) -> None:
    page = open_trace([fixtures / "ncu" / "lines.source.cuda-sass.csv.gz"]).kernels
    assert [each.name for each in page] == [each.name for each in report]
    for kernel, printed in zip(report, page, strict=True):
        ours, theirs = source_of(kernel), source_of(printed)
        assert (ours.samples, ours.executed) == (theirs.samples, theirs.executed)
        lines = [
            [(each.places[at].file, each.places[at].line) for at in each.place] for each in (ours, theirs)
        ]
        assert lines[0] == lines[1]
    called = {
        (each.line, source_of(report[0]).places[each.inlined_at].line)
        for each in source_of(report[0]).places
        if each.inlined_at >= 0
    }
    assert called == {(4, 8)}
    sums = [lines_frame(source_of(each)).set_index("place")["executed"] for each in (report[1], page[1])]
    assert sums[0].to_dict() == sums[1].to_dict()


def test_instructions_get_their_text_from_the_page_beside_the_report(fixtures: Path) -> None:
    kernels = open_trace(
        [fixtures / "ncu" / "lines.ncu-rep.gz", fixtures / "ncu" / "lines.source.csv.gz"]
    ).kernels
    assert [sum(source_of(each).samples) for each in kernels] == [1374, 890, 478]
    assert all(source_of(each).text[0] == "LDC R1, c[0x0][0x28]" for each in kernels)
    assert all(source_of(each).places for each in kernels)


def test_lines_and_instructions_are_ranked_by_what_warps_wait_for(
    qtbot: QtBot, report: tuple[KernelProfile, ...]
) -> None:
    page = SourceTable()
    page.resize(1000, 400)
    qtbot.addWidget(page)
    page.show_kernel(report[1])
    page.show()
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    assert page.lines.isVisible()
    assert page.note.text().startswith("kernels.cu:18 has 38 %")
    choose(page.counted, "barrier (85)", qtbot)
    assert page.note.text().startswith("kernels.cu:18 has 100 % of the samples of barrier")
    choose(page.counted, "All samples", qtbot)
    click_heading(page.lines, "Executed", qtbot)
    frame = page.lines.rows.frame
    assert frame is not None
    assert page.lines.rows.index(0, 0).data() == "kernels.cu:16"
    row = page.lines.visualRect(page.lines.rows.index(0, 0)).center()
    qtbot.mouseClick(page.lines.viewport(), Qt.MouseButton.LeftButton, pos=row)
    qtbot.keyClick(page.lines, Qt.Key.Key_Return)
    assert page.rows.currentText() == BY_INSTRUCTION
    assert page.table.isVisible()
    selected = page.table.rows.frame_row(page.table.currentIndex().row())
    shown = page.table.rows.frame
    assert shown is not None
    assert shown["place"].iloc[selected] == "kernels.cu:16"
    assert shown["share"].iloc[selected] == shown["share"][shown["place"] == "kernels.cu:16"].max()
    assert "text of instructions" in page.note.text()
    page.show_kernel(report[0])
    assert page.rows.currentText() == BY_INSTRUCTION


def choose(box: QComboBox, text: str, qtbot: QtBot) -> None:
    """With the keyboard, as one does in a list."""
    box.setFocus()
    while box.currentText() != text:
        before = box.currentIndex()
        qtbot.keyClick(box, Qt.Key.Key_Up if box.findText(text) < before else Qt.Key.Key_Down)
        assert box.currentIndex() != before


def click_heading(table: TableView, title: str, qtbot: QtBot) -> None:
    header = table.horizontalHeader()
    at = next(i for i, each in enumerate(table.rows.columns) if each.title == title)
    where = QPoint(header.sectionViewportPosition(at) + 8, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=where)


def test_damaged_code_never_breaks_the_reading_of_its_report(fixtures: Path) -> None:
    data = gzip.decompress((fixtures / "ncu" / "lines.ncu-rep.gz").read_bytes())
    start = data.index(b"\x7fELF")
    whole = data[start : start + 33_696]
    cubin = read_cubin(whole)
    assert {name: len(cubin.places(name, 16)[0]) for name in cubin.code}["_Z6gatherPKfPKiPfi"] == 168
    draw = random.Random(7)
    for _ in range(200):
        broken = bytearray(whole[: draw.choice((len(whole), draw.randrange(len(whole))))])
        for at in draw.choices(
            (*range(64), *range(0xD60, 0xEDA), *range(0x3B58, 0x3BA0), *range(0x7A10, 0x8250)), k=4
        ):
            if at < len(broken):
                broken[at] = draw.randrange(256)
        try:
            cubin = read_cubin(bytes(broken))
        except Damaged:
            continue
        for name in cubin.code:
            assert cubin.code[name][1] <= len(broken)
            cubin.places(name, 16)
