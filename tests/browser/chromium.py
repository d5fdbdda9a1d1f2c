"""A headless Chromium, driven by the DevTools protocol over two pipes; needs nothing but the standard library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 60.0


def installed() -> str | None:
    """The browser of this machine; None where it has none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab; ``problems`` are its errors and warnings, ``requests`` the addresses that it asked for."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        self.requests: list[str] = []

    def send(self, method: str, **values: Any) -> Any:
        return self._browser.send(method, self._session, **values)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", answer)["description"])
        return answer["result"].get("value")

    def until(self, script: str) -> Any:
        """Wait until an expression is true; its value."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            if value := self.run(script):
                return value
            time.sleep(0.02)
        raise AssertionError(f"never true: {script}; {self.problems}")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1, buttons=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float], modifiers: int = 0) -> None:
        held = {"button": "left", "buttons": 1, "modifiers": modifiers}
        self.mouse("mousePressed", *start, clickCount=1, **held)
        for part in (0.5, 1.0):
            x, y = (one + (other - one) * part for one, other in zip(start, end, strict=True))
            self.mouse("mouseMoved", x, y, **held)
        self.mouse("mouseReleased", *end, clickCount=1, **held)

    def wheel(self, x: float, y: float, down: float, modifiers: int = 0) -> None:
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=down, modifiers=modifiers)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


class Chromium:
    """The browser as a process of its own, with a profile that goes with it."""

    def __init__(self, folder: Path, program: str) -> None:
        read_here, self._write = os.pipe()
        self._read, write_there = os.pipe()
        flags = (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--hide-scrollbars", "--disable-background-networking", "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}",
        )  # fmt: skip
        above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (read_here, write_there)]
        nothing = os.open(os.devnull, os.O_RDWR)
        self._process = os.posix_spawn(
            program,
            [program, *flags],
            {**os.environ, "HOME": str(folder)},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, nothing, place) for place in range(3)),
                *((os.POSIX_SPAWN_DUP2, each, place) for each, place in zip(above, (3, 4), strict=True)),
            ],
        )
        for each in (read_here, write_there, nothing, *above):
            os.close(each)
        self._last, self._rest = 0, b""
        self._pages: dict[str, Page] = {}

    def close(self) -> None:
        self.send("Browser.close")
        os.waitpid(self._process, 0)
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, session: str = "", **values: Any) -> Any:
        self._last += 1
        call = {"id": self._last, "method": method, "params": values} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._write, json.dumps(call).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._last:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self._hear(message)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], PATIENCE_S)[0]:
                raise AssertionError("the browser does not answer")
            found = os.read(self._read, 1 << 20)
            if not found:
                raise AssertionError("the browser ended")
            self._rest += found
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        page, values = self._pages.get(message.get("sessionId", "")), message.get("params", {})
        if page is None:
            return
        match message["method"]:
            case "Runtime.exceptionThrown":
                page.problems.append(str(values["exceptionDetails"]))
            case "Log.entryAdded":
                page.problems.append(values["entry"]["text"])
            case "Runtime.consoleAPICalled":
                page.problems.append(f"{values['type']}: {values['args']}")
            case "Network.requestWillBeSent":
                page.requests.append(values["request"]["url"])

    @contextmanager
    def page(
        self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True
    ) -> Iterator[Page]:
        """A tab on a page that has been drawn."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send(
            "Emulation.setEmulatedMedia",
            features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}],
        )
        page.send("Emulation.setScriptExecutionDisabled", value=not script)
        page.send("Page.navigate", url=address)
        if script:
            page.until("location.href !== 'about:blank' && document.documentElement?.dataset.drawn")
        try:
            yield page
        finally:
            self.send("Target.closeTarget", targetId=target)
            del self._pages[session]
