"""One running program for each desktop session: a later start hands its files to the first and ends."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QDeadlineTimer, QEvent, QLockFile, QObject, QThread, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from parsers.model.late import dataclass

PROTOCOL = 2
ANSWER, AGREED = b"taken\n", b"agreed\n"
MAX_REQUEST_LENGTH = 1 << 20
ANSWER_MS = 60_000  # a first program that hangs for longer is given up; a busy machine takes seconds
START_MS = 60_000  # how long a first program may need from its start to its first answer
_RETRY_MS = 30
_TOKENS = ("XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID")


@dataclass(frozen=True, slots=True)
class Request:
    """What a later start wants shown: files (none: the start page), a moment, the desktop's leave to take the focus."""

    paths: tuple[Path, ...] = ()
    at: int | None = None
    tokens: Mapping[str, str] = field(default_factory=dict)

    def packed(self) -> bytes:
        """One line of JSON; a path that is no valid Unicode survives."""
        paths = [str(path.absolute()) for path in self.paths]
        stated = {"protocol": PROTOCOL, "paths": paths, "at": self.at, "tokens": dict(self.tokens)}
        return json.dumps(stated).encode("ascii") + b"\n"

    @classmethod
    def unpacked(cls, line: bytes) -> Request | None:
        try:
            stated = json.loads(line)
            if stated["protocol"] != PROTOCOL:
                return None
            at, tokens = stated["at"], stated["tokens"]
            paths = tuple(Path(path) for path in stated["paths"] if _names_a_file(path))
            kept = {name: tokens[name] for name in _TOKENS if _is_text(tokens.get(name))}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return cls(paths, at if isinstance(at, int) and abs(at) < 1 << 62 else None, kept)


def _names_a_file(path: object) -> bool:
    """Whether it can be a path here: bytes that are no text are fine, other halves of characters are not."""
    if not isinstance(path, str) or "\0" in path:
        return False
    with contextlib.suppress(UnicodeError):
        os.fsencode(path)
        return True
    return False


def _is_text(token: object) -> bool:
    """Whether it can stand in the environment."""
    return isinstance(token, str) and token.isprintable() and token.isascii()


def session_key(environment: Mapping[str, str] | None = None) -> str:
    """What tells one user's desktop session from another: the user and the display."""
    environment = os.environ if environment is None else environment
    display = environment.get("WAYLAND_DISPLAY") or environment.get("DISPLAY", "")
    user = str(os.getuid()) if hasattr(os, "getuid") else environment.get("USERNAME", "")
    return hashlib.sha256(f"{PROTOCOL}\0{user}\0{display}".encode()).hexdigest()[:16]


def runtime_folder() -> Path:
    """A folder that only this user can enter; made when missing, ``OSError`` when it cannot be."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        folder = Path(runtime) / "stallscope"
    elif hasattr(os, "getuid"):
        folder = Path(tempfile.gettempdir()) / f"stallscope-{os.getuid()}"
    else:
        folder = Path(tempfile.gettempdir()) / "stallscope"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        status = folder.lstat()
        if status.st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{folder} belongs to another user")
        folder.chmod(0o700)
    return folder


class SingleInstance(QObject):
    """Either the first program, which hears ``asked``, or a later one, which may ``hand_over``."""

    asked = Signal(object)  # Request

    def __init__(
        self, folder: Path | None = None, key: str | None = None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._server: QLocalServer | None = None
        self._lock: QLockFile | None = None
        self._requests: dict[QLocalSocket, bytes] = {}
        key = session_key() if key is None else key
        try:
            folder = runtime_folder() if folder is None else folder
        except OSError:
            self._name = ""
            return
        self._name = f"stallscope-{key}" if sys.platform == "win32" else str(folder / key)
        self._lock = QLockFile(str(folder / f"{key}.lock"))
        self._lock.setStaleLockTime(0)  # only the end of its process frees it, never its age

    def start(self, request: Request) -> bool:
        """Whether this program is to open its own window: it is the first, or the first does not answer.

        False: the first program has taken the request. There must be an application: only its event loop hears others.
        """
        deadline = QDeadlineTimer(START_MS)
        while self._lock is not None and not self._become_first():
            if self.hand_over(request):
                return False
            if deadline.hasExpired():
                return True
            QThread.msleep(_RETRY_MS)
        return True

    @property
    def is_first(self) -> bool:
        return self._server is not None

    def hand_over(self, request: Request) -> bool:
        """Give a request to the first program; False when there is none, or it does not answer in time.

        The first program opens the files only once this one has agreed that it answered: whoever gives up waiting opens
        them alone, and nobody opens them twice.
        """
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(ANSWER_MS):
            return False
        socket.write(request.packed())
        answer = b""
        deadline = QDeadlineTimer(ANSWER_MS)
        while len(answer) < len(ANSWER) and not deadline.hasExpired():
            if socket.waitForReadyRead(max(1, int(deadline.remainingTime()))):
                answer += bytes(socket.readAll().data())
            elif socket.state() != QLocalSocket.LocalSocketState.ConnectedState:
                break
        if answer != ANSWER:
            return False
        socket.write(AGREED)
        return socket.waitForBytesWritten(ANSWER_MS)

    def close(self) -> None:
        """Let another program be the first."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._lock is not None:
            self._lock.unlock()

    def _become_first(self) -> bool:
        assert self._lock is not None
        if not self._lock.tryLock(0):
            # no lock to be had: a window of its own
            return self._lock.error() != QLockFile.LockError.LockFailedError
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        QLocalServer.removeServer(self._name)  # left by a program that was killed
        if server.listen(self._name):
            server.newConnection.connect(self._accept)
            self._server = server
        else:
            self._lock.unlock()
        return True

    def _accept(self) -> None:
        assert self._server is not None
        while (socket := self._server.nextPendingConnection()) is not None:
            self._requests[socket] = b""
            # No closures: a cycle with a socket in it could be collected on another thread.
            socket.readyRead.connect(self._on_bytes)
            socket.disconnected.connect(self._on_disconnected)
            if socket.bytesAvailable():
                self._read(socket)

    def _on_bytes(self) -> None:
        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._read(socket)

    def _on_disconnected(self) -> None:
        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._requests.pop(socket, None)
            socket.deleteLater()

    def _read(self, socket: QLocalSocket) -> None:
        if socket not in self._requests:
            return
        received = self._requests[socket] + bytes(socket.readAll().data())
        self._requests[socket] = received
        line, ended, agreed = received.partition(b"\n")
        if not ended and len(received) < MAX_REQUEST_LENGTH:
            return
        request = Request.unpacked(line)
        if request is not None and not agreed:
            socket.write(ANSWER)
            socket.flush()
            return
        del self._requests[socket]
        socket.disconnectFromServer()
        if request is not None and agreed == AGREED:
            self.asked.emit(request)


class OpenedFiles(QObject):
    """Files that macOS hands to the running program, one by one, as events."""

    asked = Signal(object)  # Request

    def __init__(self, application: QCoreApplication) -> None:
        super().__init__(application)
        application.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent) and event.file():
            self.asked.emit(Request((Path(event.file()),)))
            return True
        return super().eventFilter(watched, event)


def desktop_tokens() -> dict[str, str]:
    """The desktop's leave to take the focus, which goes with a request."""
    return {name: os.environ[name] for name in _TOKENS if name in os.environ}


@contextlib.contextmanager
def with_tokens(tokens: Mapping[str, str]) -> Iterator[None]:
    """While a window is shown, Qt finds the leave of the start that asked for it."""
    os.environ.update(tokens)
    try:
        yield
    finally:
        for name in tokens:
            os.environ.pop(name, None)
