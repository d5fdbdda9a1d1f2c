"""The capture dialog: what is filled in is what runs, and a run can be watched, finished, killed and found again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from parsers import open_trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from tests.capture.pretend import PretendTools, alive, annotations, lines_of_training, script_request
from tests.examples import one_of
from viewer.appearance import theme
from viewer.capture.commands import FILE_NAME
from viewer.capture.form import target
from viewer.capture.form.dialog import CaptureDialog
from viewer.capture.request import (
    CaptureRequest,
    NcuOptions,
    NsysOptions,
    Target,
    TargetKind,
    Tool,
    TorchOptions,
    Window,
)
from viewer.capture.storage import LAST_USED, History, Presets

MakeDialog = Callable[[CaptureRequest | None], CaptureDialog]


probed = cache(target.probe)


@pytest.fixture
def make_dialog(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDialog]:
    """Makes dialogs; no interpreter is asked twice for its torch."""
    monkeypatch.setattr(target, "probe", probed)
    theme.apply(qapp, "dark")
    made: list[CaptureDialog] = []

    def make(preset: CaptureRequest | None = None) -> CaptureDialog:
        dialog = CaptureDialog(None, preset)
        qtbot.addWidget(dialog)
        dialog.show()
        qtbot.waitUntil(lambda: not dialog._jobs.busy)
        made.append(dialog)
        return dialog

    yield make
    for dialog in made:
        dialog.run_view.end_now()
        dialog.close()


FULL = CaptureRequest(
    tool=Tool.NSYS,
    target=Target(
        TargetKind.MODULE,
        "package.train",
        ("--name", "two words", 'say "hi"', "größe", ""),
        sys.executable,
        launcher=("numactl", "-N", "0"),
        folder="/",
        environment={"A": "b c", "D": "=e="},
    ),
    window=Window(
        "region",
        "one step",
        skip_first=7,
        warmup=1,
        active=9,
        time_limit_s=33,
        delay_s=4,
        phases=False,
        modules=True,
    ),
    torch=TorchOptions(True, False, True, when_slow=1.5, incidents=3),
    nsys=NsysOptions(("cuda", "nvtx", "cudnn"), "nvtx", 12, "epoch@mine", "node", True, True),
    ncu=NcuOptions("roofline", "regex:^gemm", "demangled", 5, 6, True, "whole", True),
    out="/tmp",
    on="ssh:me@far",
)


def test_every_field_goes_in_and_comes_out_again(make_dialog: MakeDialog) -> None:
    assert make_dialog(FULL).request() == FULL
    assert CaptureRequest.from_json(FULL.to_json()) == FULL


def test_the_first_thing_asked_for_is_the_script(make_dialog: MakeDialog) -> None:
    dialog = make_dialog(None)
    assert dialog.problem.text() == "Pick the script or module to record."
    assert not dialog.record.isEnabled()
    assert not dialog.command.isVisibleTo(dialog), "a box without a command takes no room"


def test_the_command_shown_is_the_command_that_runs(
    make_dialog: MakeDialog, tmp_path: Path, qtbot: QtBot
) -> None:
    request = script_request("inference.py", tmp_path / "my out", "two words", "it's")
    dialog = make_dialog(request)
    qtbot.waitUntil(lambda: dialog.command.toPlainText() != "")
    assert dialog.command.isVisibleTo(dialog)
    words = shlex.split(dialog.command.toPlainText())
    assert words[:2] == ["cd", str(Path(request.target.program).parent)]
    assert words[words.index("--out") + 1] == str(tmp_path / "my out")
    assert words[-3:] == [request.target.program, "two words", "it's"]
    dialog.target.arguments.setText("'not closed")
    qtbot.waitUntil(lambda: "quotation mark" in dialog.problem.text())
    assert not dialog.record.isEnabled()


def test_a_pasted_command_fills_the_fields(make_dialog: MakeDialog, qtbot: QtBot) -> None:
    dialog = make_dialog(None)
    dialog.target.program.setText("torchrun --nproc_per_node=2 -m pack.train --lr 0.1")
    dialog.target.program.editingFinished.emit()
    target = dialog.request().target
    assert (target.kind, target.program) == (TargetKind.MODULE, "pack.train")
    assert (target.launcher, target.arguments) == (("torchrun", "--nproc_per_node=2"), ("--lr", "0.1"))


def test_a_missing_tool_keeps_the_button_grey_and_says_why(
    make_dialog: MakeDialog,
    pretended_torch_python: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    qtbot: QtBot,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("viewer.capture.tools._PLACES", {"nsys": {"linux": ()}, "ncu": {"linux": ()}})
    monkeypatch.setattr(sys, "platform", "linux")
    request = script_request("inference.py", tmp_path, python=pretended_torch_python)
    dialog = make_dialog(replace(request, tool=Tool.NCU))
    qtbot.waitUntil(lambda: "ncu" in dialog.problem.text())
    assert not dialog.record.isEnabled()
    assert "developer.nvidia.com" in dialog.options.note.text()
    dialog.options.tools.button(0).click()
    qtbot.waitUntil(dialog.record.isEnabled)


def test_a_python_without_torch_keeps_the_button_grey_and_says_why(
    make_dialog: MakeDialog, pretended_torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    request = script_request("inference.py", tmp_path)
    dialog = make_dialog(replace(request, target=replace(request.target, interpreter=str(bare))))
    qtbot.waitUntil(lambda: "has no torch" in dialog.problem.text())
    assert not dialog.record.isEnabled()
    field = dialog.target.interpreter.lineEdit()
    assert field is not None
    field.setText(pretended_torch_python)
    field.editingFinished.emit()
    qtbot.waitUntil(dialog.record.isEnabled)


def test_slow_choices_are_warned_about_before_they_start(
    make_dialog: MakeDialog, pretend_tools: PretendTools, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = make_dialog(script_request("inference.py", tmp_path, "--batch-size", "2"))
    assert "batch size" in dialog.warnings.text()
    assert "Stacks" not in dialog.warnings.text()
    dialog.options.stacks.setChecked(True)
    qtbot.waitUntil(lambda: "Stacks" in dialog.warnings.text())
    dialog.options.tools.button(2).click()
    dialog.options.section_set.setCurrentText("full (slow)")
    qtbot.waitUntil(lambda: "38 times" in dialog.warnings.text())


def test_presets_are_kept_by_name(make_dialog: MakeDialog, tmp_path: Path) -> None:
    first = make_dialog(script_request("inference.py", tmp_path))
    first.options.shapes.setChecked(True)
    first.save_preset("with shapes")
    second = make_dialog(None)
    second.presets.setCurrentText("with shapes")
    second.presets.activated.emit(second.presets.currentIndex())
    assert second.request().torch.shapes
    assert list(Presets().all()) == ["with shapes"]


def test_copying_for_another_machine_leaves_this_ones_paths_out(
    make_dialog: MakeDialog, tmp_path: Path
) -> None:
    dialog = make_dialog(script_request("inference.py", tmp_path))
    dialog._copy_portable()
    assert "python3 stallscope_runner.pyz" in QGuiApplication.clipboard().text()
    assert sys.executable not in QGuiApplication.clipboard().text()


def test_options_from_a_finding_are_for_the_script_recorded_last(
    make_dialog: MakeDialog, tmp_path: Path
) -> None:
    last = script_request("inference.py", tmp_path)
    Presets().save(LAST_USED, last)
    offered = CaptureRequest(tool=Tool.NCU, ncu=NcuOptions(kernel_name="gemm", launch_skip=3))
    request = make_dialog(offered).request()
    assert (request.tool, request.ncu.kernel_name, request.ncu.launch_skip) == (Tool.NCU, "gemm", 3)
    assert request.target.program == last.target.program


def test_one_button_records_a_loader_with_workers_names_its_lines_and_hands_the_files_over(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    wanted = script_request("training.py", tmp_path / "out", "1", python=torch_python)
    dialog = make_dialog(wanted)
    phases: list[str] = []
    with qtbot.waitSignal(dialog.captured) as caught:
        qtbot.mouseClick(dialog.record, Qt.MouseButton.LeftButton)
        assert dialog.tabs.currentIndex() == 1
        dialog.run_view.progress.valueChanged.connect(lambda _: phases.append(dialog.run_view.phase.text()))
    path = tmp_path / "out" / "training.pt.trace.json.gz"
    assert caught.args == [[path]]
    steps = [phase for phase in phases if phase.startswith("Recording step")]
    assert steps[0] == "Recording step 1 of 5"  # of later ones those that take long
    qtbot.waitUntil(lambda: not dialog.isVisible())
    named = annotations(path)
    assert named["ProfilerStep"] == 5
    assert {named[phase] for phase in ("forward: Sequential", "backward", "optimizer")} == {5}
    assert named["data"] == 6, "five batches, and the fetch that found the epoch at its end"
    trace = open_trace([path])
    assert len({step.name for step in Analysis(trace).steps}) == 5
    assert diagnose(trace).crashed == {}
    assert {each.name: (each.file, each.line) for each in trace.capture.places} == lines_of_training()
    run = History().runs()[0]
    assert (run.exit_code, run.problem, run.recordings) == (0, "", (path,))
    assert "made 18 steps" not in run.log.read_text("utf-8")
    assert Presets().last_used() == dialog.request()
    assert make_dialog(None).request().target.program == wanted.target.program, (
        "the last used request is remembered"
    )


@pytest.mark.thorough
def test_every_rank_of_torchrun_is_recorded_from_the_window_and_they_open_as_one_run(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    wanted = script_request("distributed.py", tmp_path / "out", python=torch_python)
    launcher = (str(Path(torch_python).with_name("torchrun")), "--nproc_per_node=2", "--standalone")
    dialog = make_dialog(replace(wanted, target=replace(wanted.target, launcher=launcher)))
    with qtbot.waitSignal(dialog.captured, timeout=90_000) as caught:
        qtbot.mouseClick(dialog.record, Qt.MouseButton.LeftButton)
    (recordings,) = caught.args
    assert [path.name for path in recordings] == [
        "distributed.rank0.pt.trace.json.gz",
        "distributed.rank1.pt.trace.json.gz",
    ]
    assert [annotations(path)["ProfilerStep"] for path in recordings] == [5, 5]
    trace = open_trace(recordings)
    assert len(trace.ranks) == 2
    assert len({step.name for step in Analysis(trace).steps}) == 5
    assert diagnose(trace).crashed == {}


def test_a_failing_script_shows_its_traceback_first(
    make_dialog: MakeDialog, pretended_torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = make_dialog(
        script_request("failing_at_once.py", tmp_path / "out", python=pretended_torch_python)
    )
    with qtbot.waitSignal(dialog.run_view.ended):
        dialog.start()
    assert dialog.isVisible()
    assert dialog.run_view.phase.text() == "The script failed: ValueError: shape mismatch in layer 3."
    output = dialog.run_view.output.toPlainText()
    assert output.startswith("Traceback (most recent call last)")
    assert output.count("Traceback") == 1
    dialog.tabs.setCurrentIndex(2)
    dialog.history.table.selectRow(0)
    assert "shape mismatch" in dialog.history.output.toPlainText()
    assert not dialog.history.open.isEnabled()


@pytest.mark.thorough
def test_a_script_without_steps_is_recorded_whole_by_one_more_button(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = make_dialog(script_request("tensors_only.py", tmp_path / "out", python=torch_python))
    with qtbot.waitSignal(dialog.run_view.ended):
        dialog.start()
    assert dialog.run_view.phase.text().startswith("No steps found")
    assert dialog.run_view.retry.text() == "Record the whole run instead"
    with qtbot.waitSignal(dialog.captured):
        qtbot.mouseClick(dialog.run_view.retry, Qt.MouseButton.LeftButton)


def test_closing_asks_and_killing_leaves_nothing(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids_file = tmp_path / "pids"
    request = script_request("endless.py", tmp_path / "out", python=torch_python, PIDS_FILE=str(pids_file))
    dialog = make_dialog(replace(request, window=Window(active=100_000)))
    dialog.start()
    qtbot.waitUntil(lambda: "Recording step" in dialog.run_view.phase.text())
    monkeypatch.setattr(QMessageBox, "exec", lambda box: 0)
    answers = iter(["keep", "kill"])

    def clicked(box: QMessageBox) -> object:
        wanted = next(answers)
        return next(button for button in box.buttons() if button.text().lower().startswith(wanted))

    monkeypatch.setattr(QMessageBox, "clickedButton", clicked)
    dialog.close()
    assert dialog.isVisible()
    assert dialog.run_view.running
    dialog.close()
    assert not dialog.isVisible()
    assert not any(alive(int(pid)) for pid in pids_file.read_text().split())


@pytest.mark.thorough
def test_finishing_an_endless_script_from_the_window_keeps_its_steps(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    request = script_request(
        "endless.py", tmp_path / "out", python=torch_python, PIDS_FILE=str(tmp_path / "pids")
    )
    dialog = make_dialog(replace(request, window=Window(active=100_000, skip_first=0)))
    dialog.start()
    qtbot.waitUntil(lambda: "Recording step" in dialog.run_view.phase.text())
    with qtbot.waitSignal(dialog.captured) as caught:
        qtbot.mouseClick(dialog.run_view.finish, Qt.MouseButton.LeftButton)
    assert [path.name for path in caught.args[0]] == ["endless.pt.trace.json.gz"]
    assert History().runs()[0].recordings == tuple(caught.args[0])


@pytest.mark.thorough
def test_a_recording_that_runs_is_finished_and_kept_when_its_dialog_is_closed(
    make_dialog: MakeDialog, torch_python: str, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = script_request(
        "endless.py", tmp_path / "out", python=torch_python, PIDS_FILE=str(tmp_path / "pids")
    )
    dialog = make_dialog(replace(request, window=Window(active=100_000, skip_first=0)))
    dialog.start()
    qtbot.waitUntil(lambda: "Recording step" in dialog.run_view.phase.text())
    assert not dialog.isModal()
    monkeypatch.setattr(QMessageBox, "exec", lambda box: 0)
    monkeypatch.setattr(QMessageBox, "clickedButton", lambda box: box.defaultButton())
    with qtbot.waitSignal(dialog.captured) as caught:
        dialog.close()
        assert not dialog.run_view.kill.hasFocus()
    assert caught.args[0]
    qtbot.waitUntil(lambda: not dialog.isVisible())


def test_launchers_are_those_beside_the_chosen_python(make_dialog: MakeDialog, tmp_path: Path) -> None:
    for name in ("python", "torchrun"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    target = Target(program="train.py", launcher=("torchrun", "--nproc_per_node=2"), folder=str(tmp_path))
    dialog = make_dialog(CaptureRequest(target=target))
    dialog.target.interpreter.setEditText(str(tmp_path / "python"))
    assert dialog.request().target.launcher == (str(tmp_path / "torchrun"), "--nproc_per_node=2")
    dialog.target.interpreter.setEditText("/nowhere/python")
    assert dialog.request().target.launcher[0] == "torchrun"


def test_a_launcher_that_was_recorded_with_shows_the_python_beside_it(
    make_dialog: MakeDialog, tmp_path: Path
) -> None:
    for name in ("python3", "torchrun"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for launcher in (
        (str(tmp_path / "torchrun"), "--nproc_per_node=2"),
        (str(tmp_path / "accelerate"), "launch"),
    ):
        target = Target(program="train.py", launcher=launcher, folder=str(tmp_path))
        dialog = make_dialog(CaptureRequest(target=target))
        shown = dialog.target.interpreter.currentText()
        assert shown == str(tmp_path / "python3")
        assert dialog.request().target.launcher[0] in (launcher[0], Path(launcher[0]).name)
        dialog.target.interpreter.setEditText("/nowhere/python")
        assert dialog.request().target.launcher[0] == Path(launcher[0]).name


@pytest.mark.parametrize("name", one_of(2, ["dark", "light"]))
def test_the_dialog_paints_in_both_themes(make_dialog: MakeDialog, qapp: QApplication, name: str) -> None:
    dialog = make_dialog(FULL)
    theme.apply(qapp, name)
    try:
        ground = dialog.grab().toImage().pixelColor(2, dialog.height() - 3)
        assert (ground.lightness() < 128) == (name == "dark")
    finally:
        theme.apply(qapp, "dark")


def test_the_command_of_another_place_is_what_runs_there(
    make_dialog: MakeDialog, pretended_torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = make_dialog(script_request("inference.py", tmp_path, python=pretended_torch_python))
    there = "slurm:login --nodes 2"
    dialog.target.where.choice.setEditText(there)
    dialog.target.where.setup.setText("module load cuda")
    dialog.target.interpreter.setEditText("/there/python")
    qtbot.waitUntil(lambda: "/there/python" in dialog.command.toPlainText())
    first, setup, line = dialog.command.toPlainText().splitlines()
    assert first.startswith(f"# on {there}, ")
    assert setup == "module load cuda"
    assert f"/there/python FOLDER/{FILE_NAME} --out FOLDER/out" in line
    assert dialog.record.isEnabled()


def test_what_names_no_place_is_said_with_an_example_before_anything_runs(
    make_dialog: MakeDialog, pretended_torch_python: str, tmp_path: Path, qtbot: QtBot
) -> None:
    dialog = make_dialog(script_request("inference.py", tmp_path, python=pretended_torch_python))
    qtbot.waitUntil(dialog.record.isEnabled)
    typed = dialog.target.where.choice.lineEdit()
    assert typed is not None
    typed.selectAll()
    qtbot.keyClicks(typed, "gpu-box")
    qtbot.waitUntil(lambda: not dialog.record.isEnabled())
    assert "ssh:me@gpu-box" in dialog.problem.text()
    assert "ssh:me@gpu-box" in dialog.target.where.note.text()
    typed.selectAll()
    qtbot.keyClicks(typed, "ssh:gpu-box")
    qtbot.waitUntil(dialog.record.isEnabled)
    assert dialog.problem.text() == ""


def test_no_button_of_the_form_takes_the_place_of_the_usual_one_when_it_has_the_focus(
    make_dialog: MakeDialog, tmp_path: Path
) -> None:
    dialog = make_dialog(script_request("inference.py", tmp_path))
    taking = [button.text() for button in dialog.findChildren(QPushButton) if button.autoDefault()]
    assert taking == []


def test_all_of_the_dialog_is_on_the_screen(make_dialog: MakeDialog) -> None:
    dialog, room = make_dialog(None), QGuiApplication.primaryScreen().availableGeometry()
    assert dialog.height() <= 0.92 * room.height()
    dialog.resize(880, 540)
    QApplication.processEvents()
    assert dialog.height() == 540
    assert dialog.rect().contains(dialog.record.geometry())
