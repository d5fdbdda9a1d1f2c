"""A real sshd on loopback with keys, port and configuration of its own, and a wire to it that can be cut."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
WHY_NOT = "there is no sshd here: install openssh-server"
LOGIN_SHELLS = {
    "far": "",
    "banner": "echo Welcome to the machine; exec /bin/sh -c {line}",
    "fish": "echo Welcome to the machine; exec fish -c {line}",
    "csh": "exec tcsh -c {line}",
    "bare": "PATH=$HOME/bare; export PATH; exec /bin/sh -c {line}",
    "login": "SLURM_CONF=$HOME/slurm.conf; export SLURM_CONF; exec /bin/sh -c {line}",
    "full": "TMPDIR=$HOME/full; export TMPDIR; exec /bin/sh -c {line}",
}
"""What stands for the login shell of each host: the real one, or what it runs first and which shell reads the line."""
BARE = (
    *(
        "sh",
        "base64",
        "cat",
        "env",
        "find",
        "grep",
        "gzip",
        "head",
        "kill",
        "ls",
        "mkdir",
        "mktemp",
        "mv",
        "rm",
    ),
    *("setsid", "sha256sum", "sleep", "stat", "tail", "tr", "wc"),
)
NSYS = """#!/bin/sh
for word in "$@"; do case $word in --output=*) output=${word#--output=} ;; esac; done
if [ "$1" = export ]; then head -c 300000 /dev/zero > "$output"; exit; fi
while [ "$1" != sh ]; do shift; done
printf 'a report' > "$output.nsys-rep"
"$@"
"""
"""Pretends to be Nsight Systems around a shell script: what it writes is not looked at in these tests."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Wire:
    """Carries bytes between a port of its own and sshd, until it is cut."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self.carried = 0
        self.cut_after = 0
        self.is_down = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, down: bool = False) -> None:
        """Break every connection; while it is down there are no new ones."""
        self.is_down = down
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self.cut(down=True)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self.is_down:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            with self._lock:
                self._ends += [near, far]
            for one, other, counted in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=(one, other, counted), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 15):
                other.sendall(data)
                if counted:
                    self.carried += len(data)
                    if self.cut_after and self.carried > self.cut_after:
                        self.cut_after = 0
                        self.cut()
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class FarMachine:
    """sshd, its hosts by name, and the ``ssh`` that knows them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.tmp = folder / "tmp"
        self.port = free_port()
        for made in (self.home / "bare", self.home / "full", self.tmp):
            made.mkdir(parents=True)
        for name in BARE:
            if (found := shutil.which(name)) is not None:
                (self.home / "bare" / name).symlink_to(found)
        (self.home / "bin").mkdir()
        (self.home / "bin" / "nsys").write_text(NSYS)
        (self.home / "bin" / "nsys").chmod(0o755)
        self._make_keys()
        self.wire = Wire(self.port)
        self.known_hosts = folder / "known_hosts"
        public = (folder / "host_key.pub").read_text().split()
        names = [f"[127.0.0.1]:{self.port}", f"[127.0.0.1]:{self.wire.port}"]
        self.known_hosts.write_text("".join(f"{name} {public[0]} {public[1]}\n" for name in names))
        self.config = folder / "ssh_config"
        self.config.write_text(self._client_config())
        self._daemon = self._start()

    def close(self) -> None:
        self.wire.close()
        self._daemon.terminate()
        self._daemon.wait()

    def left(self) -> list[str]:
        """What of ours lies on the other side."""
        found = [str(path) for path in self.tmp.glob("stallscope*")]
        return sorted(found + [str(path) for path in self.home.rglob("stallscope.*")])

    def listing(self) -> list[str]:
        """Every file and folder over there."""
        return sorted(str(path) for root in (self.home, self.tmp) for path in root.rglob("*"))

    def processes(self, marked: str) -> list[int]:
        """Processes over there whose command line holds the text."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if marked.encode() in words and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        return found

    def ssh(self, folder: Path) -> Path:
        """A folder for PATH with the real ssh, told of this machine's hosts."""
        folder.mkdir(exist_ok=True)
        real = shutil.which("ssh")
        (folder / "ssh").write_text(
            f'#!/bin/sh\nexec {shlex.quote(str(real))} -F {shlex.quote(str(self.config))} "$@"\n'
        )
        (folder / "ssh").chmod(0o755)
        return folder

    def _make_keys(self) -> None:
        for name in ("host_key", "other_key", *LOGIN_SHELLS):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.folder / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        allowed = []
        settings = f'environment="HOME={self.home}",environment="TMPDIR={self.tmp}"'
        for name, shell in LOGIN_SHELLS.items():
            public = (self.folder / f"{name}.pub").read_text().strip()
            first = f"HOME={self.home}; PATH=$HOME/bin:$PATH; export HOME PATH; cd; "
            line = first + (shell or "exec /bin/bash -c {line}").format(line='"$SSH_ORIGINAL_COMMAND"')
            quoted = line.replace('"', '\\"')
            allowed.append(f'{settings},command="{quoted}" {public}\n')
        (self.folder / "authorized_keys").write_text("".join(allowed))

    def _client_config(self) -> str:
        lines = [
            "Host *",
            "  HostName 127.0.0.1",
            f"  UserKnownHostsFile {self.known_hosts}",
            "  IdentitiesOnly yes",
            "  LogLevel ERROR",
        ]
        hosts = {name: (name, self.port) for name in LOGIN_SHELLS}
        hosts |= {
            "wired": ("far", self.wire.port),
            "jumped": ("far", self.port),
            "stranger": ("other_key", self.port),
        }
        parts = []
        for host, (key, port) in hosts.items():
            parts += [f"Host {host}", f"  Port {port}", f"  IdentityFile {self.folder / key}"]
            if host == "jumped":
                parts.append("  ProxyJump far")
        parts += ["Host changed", f"  Port {self.port}", f"  IdentityFile {self.folder / 'far'}"]
        parts += [f"  UserKnownHostsFile {self.folder / 'changed_hosts'}", "  StrictHostKeyChecking yes"]
        parts += ["Host nobody", f"  Port {free_port()}"]
        public = (self.folder / "other_key.pub").read_text().split()
        (self.folder / "changed_hosts").write_text(f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n")
        return "\n".join([*parts, *lines]) + "\n"

    def _start(self) -> subprocess.Popen[bytes]:
        assert SSHD is not None
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder / 'host_key'}\n"
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}\nPidFile none\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin yes\nPasswordAuthentication no\nPermitUserEnvironment yes\nMaxStartups 100\n"
            "MaxSessions 100\nPrintMotd no\n"
        )
        words = [SSHD, "-D", "-f", str(config), "-E", str(self.folder / "sshd.log")]
        daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
                return daemon
            time.sleep(0.02)
        raise AssertionError((self.folder / "sshd.log").read_text())
