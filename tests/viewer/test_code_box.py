"""Code is shown whole in a narrow card, and copied as it was written."""

from __future__ import annotations

import ast

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from viewer.panels.findings.card_parts import CodeBox, fitted_code

LOOP = """for batch in loader:
    losses.append(loss.detach())  # stays on the GPU: nothing waits
    print(torch.stack(losses).mean().item())   # one read-back for a hundred steps
    done()"""


def test_comments_that_do_not_fit_move_above_their_line_at_its_indentation() -> None:
    assert fitted_code(LOOP, 44).splitlines() == [
        "for batch in loader:",
        "    # stays on the GPU: nothing waits",
        "    losses.append(loss.detach())",
        "    # one read-back for a hundred steps",
        "    print(torch.stack(losses).mean().item())",
        "    done()",
    ]


@pytest.mark.parametrize("columns", [8, 24, 40, 80])
def test_the_code_itself_stays_the_same(columns: int) -> None:
    assert ast.dump(ast.parse(fitted_code(LOOP, columns))) == ast.dump(ast.parse(LOOP))


def test_where_everything_fits_nothing_moves() -> None:
    assert fitted_code(LOOP, 100) == LOOP


@pytest.mark.parametrize(
    "line", ["colour = '# no comment at all, but a text that is long'", "f('a#b', 'c # d')"]
)
def test_a_hash_inside_a_text_is_no_comment(line: str) -> None:
    assert ast.dump(ast.parse(fitted_code(line, 12))) == ast.dump(ast.parse(line))


def test_a_narrow_box_hides_no_part_of_the_code_and_copies_what_was_written(qtbot: QtBot) -> None:
    box = CodeBox(LOOP)
    qtbot.addWidget(box)
    box.resize(200, 300)
    box.show()
    scroll = box._scroll.horizontalScrollBar()
    reachable = box._scroll.viewport().width() + scroll.maximum()
    assert reachable >= box.label.sizeHint().width()
    assert box._scroll.viewport().height() >= box.label.sizeHint().height()
    box.copy_button.click()
    assert QGuiApplication.clipboard().text() == LOOP
