"""Thresholds in the preferences: shown with their defaults, changed, kept, told, and set back."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from rules.terms import DEFAULTS, MIN_SHARE, Thresholds
from viewer.dialogs.preferences_dialog import PreferencesDialog, ThresholdField
from viewer.documents.document import Stage
from viewer.user_data.preferences import Preferences
from viewer.window.main_window import MainWindow

from .conftest import wait_until_ready

KEY = MIN_SHARE.key


def typed(qtbot: QtBot, field: ThresholdField, text: str) -> float:
    field.selectAll()
    qtbot.keyClicks(field, text)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    return field.value


@pytest.fixture
def dialog(qtbot: QtBot) -> PreferencesDialog:
    shown = PreferencesDialog(Preferences())
    qtbot.addWidget(shown)
    shown.pages.setCurrentWidget(shown.threshold_form)
    shown.show()
    return shown


def test_a_value_is_typed_with_its_unit_and_a_wrong_one_leaves_it(
    dialog: PreferencesDialog, qtbot: QtBot
) -> None:
    field = dialog.threshold_form.fields[KEY]
    assert typed(qtbot, field, "5 %") == pytest.approx(0.05)
    assert field.text() == "5.00 %"
    for wrong in ("99 %", "five", "-1"):
        assert typed(qtbot, field, wrong) == pytest.approx(0.05)
        assert field.text() == "5.00 %"
    assert field.accessibleName().startswith("The smallest share of the analysed time")
    assert "0.01 % to 50.0 %" in field.accessibleDescription()


def test_what_was_changed_is_kept_and_the_defaults_come_back(dialog: PreferencesDialog, qtbot: QtBot) -> None:
    typed(qtbot, dialog.threshold_form.fields[KEY], "5 %")
    dialog.accept()
    assert Preferences().thresholds == Thresholds({KEY: 0.05})
    again = PreferencesDialog(Preferences())
    qtbot.addWidget(again)
    assert again.threshold_form.fields[KEY].text() == "5.00 %"
    again.threshold_form.reset_button.click()
    again.accept()
    assert Preferences().thresholds == DEFAULTS


def test_nothing_is_changed_by_looking(dialog: PreferencesDialog, qtbot: QtBot) -> None:
    for field in dialog.threshold_form.fields.values():
        typed(qtbot, field, field.text())
    dialog.accept()
    assert Preferences().thresholds == DEFAULTS


def test_a_damaged_value_in_the_settings_is_ignored() -> None:
    preferences = Preferences()
    preferences.keep_recent = True
    preferences._settings.setValue(f"thresholds/{KEY}", "many")
    assert preferences.thresholds == DEFAULTS


def test_an_open_recording_is_judged_anew_and_the_window_says_by_what(
    window: MainWindow, qtbot: QtBot
) -> None:
    def notes() -> str:
        return " ".join(label.text() for label in window.diagnosis.findChildren(QLabel))

    before = window.document.diagnosis
    assert before is not None
    assert before.findings
    assert "changed thresholds" not in notes()
    window.preferences.thresholds = Thresholds({KEY: 0.5})
    window.acts._apply_preferences()
    assert window.document.stage is Stage.ANALYSING
    wait_until_ready(qtbot, window)
    after = window.document.diagnosis
    assert after is not None
    assert after.thresholds[MIN_SHARE] == 0.5
    assert {finding.rule for finding in after.findings} != {finding.rule for finding in before.findings}
    assert "changed thresholds" in notes()
    assert "50.0 % instead of 1.00 %" in notes().replace("\u00a0", " ")


def test_a_new_window_begins_with_the_thresholds_of_the_preferences(qtbot: QtBot) -> None:
    preferences = Preferences()
    preferences.thresholds = Thresholds({KEY: 0.2})
    window = MainWindow(preferences)
    qtbot.addWidget(window)
    assert window.document.thresholds == Thresholds({KEY: 0.2})
    window.close()
