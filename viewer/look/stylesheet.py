"""The style sheet of the standard widgets: flat, one line between panels, an 8 px grid."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

import resources

_SHEET = Template(
    """
QMainWindow, QDialog { background: $panel; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: $accent; }
QToolTip { background: $strip; color: $text; border: 1px solid $line_strong; padding: 6px 8px; }

QMenuBar { background: $window; color: $text; border: none; }
QMenuBar::item { padding: 4px 8px; background: transparent; }
QMenuBar::item:selected { background: $hover; border-radius: 4px; }
QMenu { background: $panel; color: $text; border: 1px solid $line_strong; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 12px; border-radius: 4px; }
QMenu::item:selected { background: $selection; }
QMenu::item:disabled { color: $text_faint; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }

#sentence { border: 1px solid $line_strong; border-radius: 6px; }
#sentence[late="true"] { border-color: $error; }
#results { background: $panel; border: 1px solid $line_strong; border-radius: 6px; }
QToolBar { background: $window; border: none; border-bottom: 1px solid $line; spacing: 8px; padding: 8px; }
QStatusBar { background: $panel; color: $text_secondary; border-top: 1px solid $line; }
QStatusBar::item { border: none; }

QPushButton, QToolButton {
    background: $window; color: $text; border: 1px solid $line_strong; border-radius: 5px; padding: 4px 12px;
}
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QFileDialog QToolButton { padding: 3px; }
QFileDialog {
    filedialog-parent-directory-icon: url("$controls/arrow-up.svg"); backward-icon: url("$controls/arrow-left.svg");
    forward-icon: url("$controls/arrow-right.svg");
}
QPushButton:hover, QToolButton:hover { background: $hover; }
QPushButton:pressed, QPushButton:checked, QToolButton:pressed, QToolButton:checked { background: $selection; }
QPushButton[chip="true"] { padding: 3px 10px; }
QPushButton[chip="true"]:checked { border-color: $accent; }
QPushButton:focus, QToolButton:focus { border-color: $accent; }
QPushButton:disabled, QToolButton:disabled { color: $text_faint; border-color: $line; }
QPushButton:default { background: $accent_fill; border-color: $accent_fill; color: #ffffff; }
QPushButton:default:focus { border: 2px solid $text; padding: 3px 11px; }
QPushButton[flat="true"], QToolButton[flat="true"], QToolButton[autoRaise="true"] { border-color: transparent; }
QToolButton[autoRaise="true"]:!hover:!pressed:!checked { background: transparent; }
QPushButton[flat="true"]:focus, QToolButton[flat="true"]:focus, QToolButton[autoRaise="true"]:focus {
    border-color: $accent;
}
QPushButton[link="true"] { color: $accent; }
QPushButton[link="bare"] { color: $accent; text-align: left; padding: 0; border: none; background: transparent; }
QPushButton[link="bare"][role="error"] { color: $error; }
QPushButton[link="bare"]:disabled { color: $text_faint; }
QPushButton[link="bare"]:focus { text-decoration: underline; }

QLineEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {
    background: $window; color: $text; border: 1px solid $line_strong; border-radius: 5px; padding: 4px 8px;
    selection-background-color: $selection; selection-color: $text; placeholder-text-color: $text_faint;
}
QLineEdit:focus, QPlainTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus { border-color: $accent; }
QComboBox::drop-down { border: none; width: 20px; }
QComboBox::down-arrow { image: url("$controls/arrow-down.svg"); width: 12px; height: 12px; }
QComboBox:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QLineEdit:disabled, QPlainTextEdit:disabled {
    color: $text_faint; border-color: $line;
}
QComboBox QAbstractItemView {
    background: $panel; color: $text; border: 1px solid $line_strong; selection-background-color: $selection;
}

QAbstractSpinBox { padding: 4px 2px 4px 6px; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { width: 0; border: none; }
QAbstractSpinBox QLineEdit { border: none; padding: 0 0 0 6px; background: transparent; }

QDialog QTabWidget::tab-bar { left: 4px; }
QTabWidget::pane { border: none; border-top: 1px solid $line; }
QTabBar { background: $panel; qproperty-drawBase: 0; }
QTabBar::tab {
    background: transparent; color: $text_secondary; padding: 7px 12px 6px 12px; border: none;
    border-bottom: 2px solid transparent;
}
QTabBar[crowded="true"]::tab { padding-left: 6px; padding-right: 6px; }
QTabBar::tab:selected { color: $text; border-bottom-color: $accent; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected:focus { background: $hover; }

QTableView, QTreeView, QListView {
    background: $panel; alternate-background-color: $window; color: $text; border: none; gridline-color: transparent;
    selection-background-color: $selection; selection-color: $text; outline: none;
}
QTreeView { border: 1px solid transparent; }
QTreeView:focus { border-color: $accent; }
QTableView::item, QTreeView::item, QListView::item { padding: 2px 8px; border: none; }
QTableView::item:hover, QTreeView::item:hover, QListView::item:hover { background: $hover; }
QTableView::item:selected, QTreeView::item:selected, QListView::item:selected { background: $selection; color: $text; }
QHeaderView { background: $panel; }
QHeaderView::section {
    background: $panel; color: $text_secondary; border: none; border-bottom: 1px solid $line; padding: 5px 8px;
}
QTableCornerButton::section { background: $panel; border: none; }

QDockWidget { color: $text; titlebar-close-icon: none; }
QDockWidget::title { background: $panel; padding: 6px 8px; }
QSplitter::handle { background: $line; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }

QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line_strong; border-radius: 3px; margin: 2px; min-height: 24px; min-width: 24px; }
QScrollBar::handle:hover { background: $text_faint; }
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {
    background: transparent; border: none; width: 0; height: 0;
}
QAbstractScrollArea::corner { background: transparent; border: none; }
QScrollArea { background: transparent; border: none; }

QProgressBar { background: $strip; border: none; border-radius: 3px; color: $text; text-align: center; }
QProgressBar::chunk { background: $accent; border-radius: 3px; }
QCheckBox, QRadioButton { color: $text; spacing: 6px; }
QCheckBox:disabled, QRadioButton:disabled { color: $text_faint; }
QCheckBox::indicator, QRadioButton::indicator, QGroupBox::indicator {
    width: 14px; height: 14px; background: $window; border: 1px solid $text_faint; border-radius: 3px;
}
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:hover, QRadioButton::indicator:hover, QCheckBox::indicator:focus { border-color: $accent; }
QCheckBox::indicator:checked, QGroupBox::indicator:checked {
    background: $accent_fill; border-color: $accent_fill; image: url("$controls/check.svg");
}
QRadioButton::indicator:checked {
    width: 6px; height: 6px; background: #ffffff; border: 5px solid $accent_fill; border-radius: 8px;
}
QCheckBox::indicator:checked:focus, QRadioButton::indicator:checked:focus { border-color: $text; }
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled { border-color: $line_strong; }
QCheckBox::indicator:checked:disabled { background: $text_faint; border-color: $text_faint; }
QRadioButton::indicator:checked:disabled { border-color: $text_faint; }
QLabel[pill="true"] { color: $text_secondary; border: 1px solid $line_strong; border-radius: 8px; padding: 1px 7px; }
QLabel[role="secondary"] { color: $text_secondary; }
QLabel[role="faint"] { color: $text_faint; }
QLabel[role="error"] { color: $error; }
"""
)


def stylesheet(colors: Mapping[str, str]) -> str:
    """The sheet with every ``$name`` replaced by its colour, and the folder of the small pictures."""
    return _SHEET.substitute(colors, controls=resources.path("icons/controls").as_posix())
