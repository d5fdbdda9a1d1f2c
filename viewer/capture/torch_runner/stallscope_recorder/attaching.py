"""Records a program that already runs, through Kineto's own daemon protocol: nothing is put into the program.

A process that was started with ``KINETO_USE_DAEMON=1`` asks a datagram socket of a fixed name every few seconds whether
somebody wants a recording. What answers here is that somebody. Runs by itself in Python 3.8 and newer, on Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import re
import shutil
import socket
import struct
import time
from typing import Any, Dict, Iterable, List, Optional

from .session import rank_in
from .status import Status

NAME = "dynolog"  # what Kineto calls whoever answers
_HEAD = struct.Struct("<Q32s")  # size of what follows, and its kind
_REQUEST = struct.Struct("<iiq")  # wanted, number of processes, job; then the process and its ancestors
_ACTIVITIES = 2
_POLL = 0.1
POLLED_WITHIN = 6.0
"""Kineto asks every five seconds, or ten while nobody answers: after twice this everybody has asked."""
SETTLED_AFTER = 30.0
"""A launcher that is so old, in seconds, has started its ranks."""
COMPLETE_WITHIN = 300.0
WARMUP = 2
"""Steps before those that are recorded, in which switching the GPU's tracing on is paid for."""
WITHOUT_ITERATIONS_MS = 2000
"""How long is recorded of a program that has no optimizer, whose iterations Kineto cannot count."""
TRIES = 4
_STEP = re.compile(
    rb'"cat": "(?!gpu_)[a-z_]*",\s*"name": "Optimizer\.step#[^"]*"[^}]*?"ts": ([0-9.]+)'  # the GPU has a copy
)
_BASE = re.compile(rb'"baseTimeNanoseconds": ([0-9]+)')


class Process:
    """One that asks: its id, those of its ancestors, its job, and where answers go to."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ancestors: List[int] = []
        self.job = 0
        self.address: Any = b""
        self.asked = 0.0
        self.interval = 0.0  # seconds between the last two times it asked
        self.answer: Optional[str] = None  # the next time it asks for activities

    @property
    def environment(self) -> Dict[str, str]:
        return environment_of(self.pid)

    @property
    def rank(self) -> int:
        return rank_in(self.environment)

    @property
    def ranks(self) -> int:
        """How many ranks its launcher starts on this machine, or it itself; 1 where nothing is said of that."""
        said = [environment_of(pid).get("LOCAL_WORLD_SIZE", "") for pid in [self.pid, *self.children]]
        return max([int(each) for each in said if each.isdigit()] or [1])

    @property
    def is_launcher(self) -> bool:
        return self.ranks > 1 and self.rank < 0

    @property
    def children(self) -> List[int]:
        """Processes that it started, which may be what is to be recorded."""
        try:
            with open("/proc/{0}/task/{0}/children".format(self.pid), encoding="ascii") as file:
                return [int(pid) for pid in file.read().split() if int(pid) != os.getpid()]
        except OSError:
            return []

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        try:
            began = int(_stat(self.pid)[19]) / os.sysconf("SC_CLK_TCK")
            with open("/proc/uptime", encoding="ascii") as file:
                return float(file.read().split()[0]) - began
        except (OSError, ValueError, IndexError):
            return 0.0

    @property
    def is_alive(self) -> bool:
        return is_running(self.pid)


class Server:
    """The socket that Kineto asks; raises ``OSError`` where somebody else answers already."""

    def __init__(self, folder: str = "") -> None:
        self._path = os.path.join(folder, NAME) if folder else ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path or "\0{}\0".format(NAME))
        self._socket.settimeout(_POLL)
        self.known: Dict[int, Process] = {}

    def close(self) -> None:
        self._socket.close()
        if self._path:
            with contextlib.suppress(OSError):
                os.remove(self._path)

    def serve(self, seconds: float) -> None:
        """Answer whoever asks, for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                message, address = self._socket.recvfrom(1 << 16)
            except socket.timeout:
                continue
            with contextlib.suppress(OSError, struct.error, ValueError):
                self._answer(message, address)

    def _answer(self, message: bytes, address: Any) -> None:
        _, kind = _HEAD.unpack_from(message)
        body = message[_HEAD.size :]
        if kind.startswith(b"ctxt"):
            self._say(b"ctxt", struct.pack("<i", 1), address)
        elif kind.startswith(b"req"):
            wanted, count, job = _REQUEST.unpack_from(body)
            pids = struct.unpack_from("<{}i".format(count), body, _REQUEST.size)
            process = self.known.setdefault(pids[0], Process(pids[0]))
            process.ancestors, process.job, process.address = list(pids), job, address
            before, process.asked = process.asked, time.monotonic()
            process.interval = process.asked - before if before else 0.0
            text = ""
            if wanted & _ACTIVITIES and process.answer is not None:
                text, process.answer = process.answer, None
            self._say(b"req", text.encode(), address)

    def _say(self, kind: bytes, body: bytes, address: Any) -> None:
        self._socket.sendto(_HEAD.pack(len(body), kind) + body, address)


class Attached:
    """Recordings of the processes that were asked for."""

    def __init__(self, options: argparse.Namespace, server: Server, status: Status) -> None:
        self._options = options
        self._server = server
        self._status = status
        self._processes: List[Process] = []
        self._together = 0  # a multiple of so many steps is where all begin; 0 while it is unknown
        self.written: List[str] = []

    @property
    def _stopped(self) -> bool:
        return bool(self._options.control) and os.path.exists(self._options.control)

    def find(self) -> bool:
        """Wait until all have asked who are to be recorded; whether there is anybody."""
        self._status.say("waiting", text="for the program to ask")
        began = time.monotonic()
        first = None
        self._together = 0
        while not self._stopped and time.monotonic() - began < self._options.wait:
            self._server.serve(0.5)
            found = self._processes = self._wanted()
            if found:
                first = first or time.monotonic()
                ranks = max(each.ranks for each in found)
                settled = found[0].age > SETTLED_AFTER and not found[0].children
                if len({each.rank for each in found}) >= ranks > 1:
                    break
                if settled and found[0].pid == self._options.pid:
                    break
                if ranks == 1 and time.monotonic() - first > 2 * POLLED_WITHIN:
                    break
            if self._options.pid and not is_running(self._options.pid):
                break
        return bool(self._processes)

    def _wanted(self) -> List[Process]:
        pid, job = self._options.pid, self._options.job
        found = [
            each
            for each in self._server.known.values()
            if each.is_alive and (not pid or pid in each.ancestors) and (not job or each.job == job)
        ]
        return sorted(ranks_among(found), key=lambda each: (each.rank, each.pid))

    def record(self, number: int) -> bool:
        """One recording of each; whether there was any."""
        files: Dict[int, str] = {}
        for attempt in range(TRIES):
            if len(self._processes) > 1 and not self._together:
                self._find_steps()
            files = self._asked(self._options.active, self._together or 1, "{}.{}".format(number, attempt))
            launched = any(each.is_launcher for each in self._processes)
            if self._stopped or attempt == TRIES - 1 or (not launched and are_together(list(files.values()))):
                break
            for file in files.values():
                os.remove(file)
            if launched and not self.find():
                return False
        for process in self._processes:
            if process.pid in files:
                self._keep(files[process.pid], process, number, len(self._processes))
        return bool(files)

    def _find_steps(self) -> None:
        """From a short recording: who makes steps, and how far ahead a step lies that all have heard of in time."""
        self._status.say("warming-up", step=1, of=1)
        files = self._asked(2, 1, "rate")
        times = {pid: step_times(file) for pid, file in files.items()}
        for file in files.values():
            os.remove(file)
        self._processes = [each for each in self._processes if times.get(each.pid)] or self._processes
        lengths = [(each[-1] - each[0]) / (len(each) - 1) for each in times.values() if len(each) > 1]
        known = [each for each in lengths if each > 0]
        heard = 2 * max([POLLED_WITHIN, *(each.interval for each in self._processes)])
        self._together = max(2, int(heard / min(known))) if known else 1

    def _asked(self, steps: int, multiple: int, label: str) -> Dict[int, str]:
        """What Kineto wrote for each process; again where its program had not made a step yet when it was asked."""
        left = list(self._processes)
        found: Dict[int, str] = {}
        for attempt in range(TRIES):
            stem = os.path.join(self._options.out, ".{}.{}.{}".format(self._options.name, label, attempt))
            for process in left:
                process.answer = order(stem + ".json", steps, multiple)
            files = self._await(left, stem)
            again = []
            for process in left:
                file = files.get(process.pid)
                if file is None:
                    continue
                counted = len(step_times(file))
                if counted == steps or (counted == 0 and attempt > 0) or attempt == TRIES - 1:
                    found[process.pid] = file
                else:
                    os.remove(file)
                    again.append(process)
            left = again
            if not left or self._stopped:
                break
        return found

    def _await(self, processes: List[Process], stem: str) -> Dict[int, str]:
        self._status.say("recording", text="as soon as the program asks")
        files: Dict[int, str] = {}
        until = time.monotonic() + COMPLETE_WITHIN
        while len(files) < len(processes) and time.monotonic() < until and not self._stopped:
            self._server.serve(0.3)
            for process in processes:
                path = "{}_{}.json".format(stem, process.pid)
                if process.pid not in files and is_complete(path):
                    files[process.pid] = path
            if not any(each.is_alive for each in processes if each.pid not in files):
                break
        return files

    def _keep(self, file: str, process: Process, number: int, count: int) -> None:
        parts = [self._options.name]
        if number > 1:
            parts.append(str(number))
        if process.rank >= 0 or count > 1:
            parts.append("rank{}".format(process.rank if process.rank >= 0 else process.pid))
        path = os.path.join(self._options.out, ".".join(parts) + ".pt.trace.json.gz")
        self._status.say("writing", path=path)
        with open(file, "rb") as source, gzip.open(path + ".part", "wb", compresslevel=4) as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        os.replace(path + ".part", path)
        os.remove(file)
        self.written.append(path)
        self._status.say("written", path=path)


def ranks_among(found: Iterable[Process]) -> List[Process]:
    """All but launchers, which are of another rank than what they started, or of none."""
    known = {each.pid: each for each in found}
    launchers = {
        ancestor
        for each in known.values()
        for ancestor in each.ancestors
        if ancestor in known and known[ancestor].rank != each.rank
    }
    return [each for each in known.values() if each.pid not in launchers]


def order(path: str, steps: int, multiple: int) -> str:
    """What Kineto is told; it puts the process into the file's name."""
    return (
        "ACTIVITIES_LOG_FILE={}\nPROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP={}\n"
        "ACTIVITIES_WARMUP_ITERATIONS={}\nACTIVITIES_ITERATIONS={}\nACTIVITIES_DURATION_MSECS={}\n"
    ).format(path, multiple, WARMUP, steps, WITHOUT_ITERATIONS_MS)


def step_times(file: str) -> List[float]:
    """When the steps of optimizers in a file of Kineto's began, in seconds of the machine's clock."""
    with open(file, "rb") as content:
        text = content.read()
    base = _BASE.search(text)
    return sorted(
        (int(base.group(1)) if base else 0) / 1e9 + float(each) / 1e6 for each in _STEP.findall(text)
    )


def are_together(files: List[str]) -> bool:
    """Whether the recordings of all ranks begin at the same step; one that heard too late began a multiple later."""
    firsts = [times[0] for times in map(step_times, files) if times]
    return not firsts or max(firsts) - min(firsts) < POLLED_WITHIN


def is_complete(path: str) -> bool:
    """Whether Kineto has written the file to its end."""
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - 64, 0))
            if not file.read().rstrip().endswith(b"}"):
                return False
        with open(path, encoding="utf-8", errors="replace") as text:
            json.load(text)
    except (OSError, ValueError):
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended, as one has that its parent has not asked after."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _stat(pid: int) -> List[str]:
    """What the kernel says of a process, from its state on; empty where there is none."""
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def environment_of(pid: int) -> Dict[str, str]:
    """The variables that a process was started with, as far as this user may see them."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as file:
            pairs = [each.partition(b"=") for each in file.read().split(b"\0")]
    except OSError:
        return {}
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def main(arguments: List[str]) -> int:
    """Record what already runs; the exit code."""
    options = _parser().parse_args(arguments)
    status = Status(options.status, -1)
    status.say("starting", text="attaching", pid=os.getpid())
    os.makedirs(options.out, exist_ok=True)
    if options.pid and not is_running(options.pid):
        return _give_up(status, "there is no process {}".format(options.pid))
    try:
        server = Server(options.socket_dir)
    except OSError as error:
        said = "another program answers Kineto here already, such as dynolog ({})".format(error.strerror)
        return _give_up(status, said)
    attached = Attached(options, server, status)
    try:
        if not attached.find():
            return _give_up(status, _why_nobody(options))
        for number in range(1, options.times + 1):
            if not attached.record(number):
                break
    finally:
        server.close()
    if not attached.written:
        return _give_up(status, "nothing was recorded: the program ended, or it was stopped before")
    status.say("done", files=attached.written)
    return 0


def _why_nobody(options: argparse.Namespace) -> str:
    hint = "Start it with KINETO_USE_DAEMON=1 in its environment, and torch 2.2 or newer."
    if options.pid and environment_of(options.pid).get("KINETO_USE_DAEMON") is None:
        return "process {} was not started with KINETO_USE_DAEMON=1. {}".format(options.pid, hint)
    return "no program asked within {:g} s. {}".format(options.wait, hint)


def _give_up(status: Status, text: str) -> int:
    status.say("problem", text=text, reason="not-attached")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attach", description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--name", default="recording")
    parser.add_argument("--pid", type=int, default=0, help="the process, or the one that started all ranks")
    parser.add_argument("--job", type=int, default=0, help="the job of Slurm")
    parser.add_argument("--active", type=int, default=5, help="steps in each recording")
    parser.add_argument("--times", type=int, default=1, help="recordings")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds until the program must have asked")
    parser.add_argument("--status", choices=("text", "lines", "none"), default="text")
    parser.add_argument("--control", default="", help="it ends as soon as this file exists")
    parser.add_argument("--socket-dir", default=os.environ.get("KINETO_IPC_SOCKET_DIR", ""))
    return parser
