"""A screen of its own (Xvfb) with a real mouse and keyboard (xdotool), and a program that runs on it."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Point = tuple[int, int]
Observation = dict[str, Any]
NEEDED = ("Xvfb", "xdotool")
RETRY_S = 10.0
PATIENCE_S = 60.0  # for a machine that does many other things; nothing waits longer than it must
LEFT, MIDDLE, WHEEL_UP = 1, 2, 4  # buttons of the mouse, as X counts them
PLAIN_QT = {
    "QT_QPA_PLATFORM": "xcb",
    "QT_QPA_PLATFORMTHEME": "generic",
}  # whatever desktop this is started on
FAILED = "Stallscope failed"  # the title of the dialog about a mistake of ours
_XWD_HEADER = struct.Struct(">25I")


def missing_tools() -> list[str]:
    """What is missing for a screen: the system itself, or what has to be installed."""
    if sys.platform != "linux":
        return ["Linux"]
    return [tool for tool in NEEDED if shutil.which(tool) is None]


class Screen:
    """One X server; the mouse and the keyboard act on whatever is there, as a user's would."""

    def __init__(self, display: str, framebuffer: Path) -> None:
        self.display = display
        self._framebuffer = framebuffer

    def _xdotool(self, *words: object) -> str:
        done = subprocess.run(
            ["xdotool", *map(str, words)],
            env={**os.environ, "DISPLAY": self.display},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"xdotool {words}: {done.stderr}"
        return done.stdout.strip()

    def focus(self, title: str) -> None:
        """Give the keyboard to the visible window with this in its title; there is no window manager to do it."""
        found = self._xdotool("search", "--sync", "--onlyvisible", "--name", title).split()
        self._xdotool("windowfocus", "--sync", found[-1])

    def titles(self) -> list[str]:
        """The titles of all visible windows."""
        found = self._xdotool("search", "--sync", "--onlyvisible", "--name", "Stallscope").split()
        return [self._xdotool("getwindowname", window) for window in found]

    def click(self, place: Point, button: int = LEFT) -> None:
        self._xdotool("mousemove", *place, "click", button)

    def drag(self, start: Point, end: Point, button: int = LEFT) -> None:
        """Press at ``start``, move over the middle, release at ``end``."""
        middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
        self._xdotool(
            *("mousemove", *start, "mousedown", button),
            *("mousemove", *middle, "mousemove", *end, "mouseup", button),
        )

    def key(self, *keys: str) -> None:
        self._xdotool("key", *keys)

    def type(self, text: str) -> None:
        self._xdotool("type", "--delay", 2, text)

    def pixels(self) -> npt.NDArray[np.uint8]:
        """What is on the screen now, (height, width, 3)."""
        data = self._framebuffer.read_bytes()
        header = _XWD_HEADER.unpack_from(data)
        size, width, height, bits, line, colors = (header[index] for index in (0, 4, 5, 11, 12, 19))
        assert bits == 32, f"the screen has {bits} bits a pixel"
        rows = np.frombuffer(data, np.uint8, height * line, size + 12 * colors).reshape(height, line)
        return rows[:, : 4 * width].reshape(height, width, 4)[:, :, 2::-1]


@contextmanager
def screen(folder: Path, width: int, height: int) -> Iterator[Screen]:
    """Start an X server on a free display; its picture lies in ``folder``."""
    reading, writing = os.pipe()
    server = subprocess.Popen(
        [
            *("Xvfb", "-displayfd", str(writing), "-screen", "0", f"{width}x{height}x24"),
            *("-fbdir", str(folder), "-nolisten", "tcp", "-noreset"),
        ],
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with server, os.fdopen(reading) as answer:
        try:
            number = answer.readline().strip()
            assert number, "the X server did not start"
            yield Screen(f":{number}", folder / "Xvfb_screen0")
        finally:
            server.terminate()


class Program:
    """A running program, and the last thing that was seen of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: Observation = {}
        self._ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.seen = json.loads(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_until(self, what: str, condition: Callable[[Observation], object]) -> Observation:
        """What is seen as soon as nothing moves and ``condition`` holds; ``what`` says so if it never does."""

        def hopeless() -> bool:
            return self._ended or self.seen.get("active") == FAILED

        def reached() -> bool:
            return bool(self.seen) and bool(self.seen["settled"]) and bool(condition(self.seen))

        with self._changed:
            self._changed.wait_for(lambda: reached() or hopeless(), PATIENCE_S)
            assert reached(), f"not seen: {what}. Seen last: {json.dumps(self.seen)}"
            return self.seen

    def comes_to(self, condition: Callable[[Observation], object]) -> bool:
        """Whether ``condition`` holds before long; where it does not, somebody would try again."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self.seen) and bool(condition(self.seen)), RETRY_S)

    def wait_until_ended(self) -> int:
        """The exit code, once the program has ended by itself."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code


@contextmanager
def program(on: Screen, repository: Path, *arguments: object) -> Iterator[Program]:
    """Start the program on a screen; whatever happens, it has ended afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.viewer.screen.observed_program", *map(str, arguments)],
        cwd=repository,
        env={**os.environ, **PLAIN_QT, "DISPLAY": on.display},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Program(process)
        finally:
            process.kill()
