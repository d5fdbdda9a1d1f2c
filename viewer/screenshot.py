"""Renders the real window to a picture, without a display: ``python -m viewer.screenshot PATH --out FILE.png``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from parsers.files.private_folder import PrivateFolder
from parsers.model import TraceError
from viewer.terminal.console import CommandParser, NamesOutput, complain, refuse_to_lose, write_bytes
from viewer.terminal.exit_codes import BAD_INPUT, DONE

GIVE_UP_AFTER_S = 300.0
SETTLE_S = 0.35


def main(arguments: Sequence[str] | None = None) -> int:
    """Load, wait for the diagnosis, paint, save; 2 when the file cannot be opened or the picture not be written."""
    options = _parser().parse_args(arguments)
    try:
        refuse_to_lose(options)
    except TraceError as error:
        complain(error)
        return BAD_INPUT
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = str(options.scale)
    settings = PrivateFolder()
    return _render(options, settings.path)


def serve(request: bytes, answer: IO[bytes]) -> None:
    """Paint one picture for another process: JSON with ``paths`` and ``span`` in, PNG out; nothing where it fails."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    wanted = json.loads(request)
    folder = PrivateFolder()
    out = folder.path / "place.png"
    options = ["--out", str(out), "--span", wanted["span"], "--size", "1280x720", "--scale", "1"]
    if main([*wanted["paths"], *options]) == 0:
        answer.write(out.read_bytes())


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m viewer.screenshot", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--out", action=NamesOutput, required=True, metavar="FILE.png")
    parser.add_argument("--theme", choices=["dark", "light"], default="dark")
    parser.add_argument("--size", default="1440x900", metavar="WxH", help="size of the window in pixels")
    parser.add_argument(
        "--scale", type=float, default=2.0, help="pixels of the picture for each pixel of the window"
    )
    parser.add_argument("--zoom", choices=["step", "all", "worst"], default="worst")
    parser.add_argument("--tab", default="", help="tab of the bottom dock to show")
    parser.add_argument("--finding", type=int, default=0, metavar="N", help="fly to the N-th finding, from 1")
    parser.add_argument("--span", default="", metavar="A-B", help="show this time, such as 31.2ms-40ms")
    return parser


def _render(options: argparse.Namespace, settings: Path) -> int:
    from PySide6.QtCore import QBuffer, QSettings

    from parsers.model.units import parse_duration
    from viewer.app import application
    from viewer.appearance import theme
    from viewer.documents.document import Stage
    from viewer.user_data.preferences import Preferences
    from viewer.window.main_window import MainWindow

    app = application()
    QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, str(settings))
    preferences = Preferences()
    preferences.keep_recent = False
    preferences.animate = False
    preferences.first_view = options.zoom
    theme.apply(app, options.theme)
    width, height = (int(part) for part in options.size.lower().split("x"))
    window = MainWindow(preferences)
    window.resize(width, height)
    window.show()
    problems: list[str] = []
    window.document.failed.connect(lambda problem, hint: problems.append(f"{problem} {hint}".strip()))

    def until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + GIVE_UP_AFTER_S
        while not done() and time.monotonic() < deadline:
            app.processEvents()
            time.sleep(0.005)

    def settle() -> None:
        end = time.monotonic() + SETTLE_S
        until(lambda: time.monotonic() > end and not window.jobs.busy)

    if options.paths:
        window.open(options.paths)
        until(lambda: window.document.stage in (Stage.READY, Stage.EMPTY))
    diagnosis = window.document.diagnosis
    if options.finding and diagnosis is not None and options.finding <= len(diagnosis.findings):
        window.document.select_finding(diagnosis.findings[options.finding - 1])
    if options.tab:
        window.panels.show_panel(options.tab)
    if options.span:
        begin, end = (parse_duration(word) or 0 for word in options.span.split("-", 1))
        window.timeline.show_interval(begin, end, animate=False)
    settle()
    drawn = QBuffer()
    window.grab().save(drawn, "PNG")
    window.close()
    try:
        write_bytes(options.out, bytes(drawn.data().data()))
    except TraceError as error:
        problems.append(str(error))
    for problem in problems:
        complain(problem)
    return BAD_INPUT if problems else DONE


if __name__ == "__main__":
    sys.exit(main())
