"""A real Slurm of two nodes on this machine: its own munged, slurmctld and two slurmd, which all end with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.remote.far_machine import free_port

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROGRAMS = {name: shutil.which(name, path=_PATH) for name in ("munged", "slurmctld", "slurmd", "sbatch")}
NODES = ("one", "two")


def why_not() -> str:
    """What keeps Slurm from running here; empty where it can."""
    missing = [name for name, path in PROGRAMS.items() if path is None]
    if missing:
        return f"there is no {missing[0]} here: install slurm-wlm and munge"
    return "" if os.getuid() == 0 else "starting Slurm takes root"


class SlurmCluster:
    """The daemons, their settings, and the environment in which ``sbatch`` finds them; raises ``AssertionError``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.settings = {"SLURM_CONF": str(folder / "slurm.conf")}
        for made in ("state", "munge", *NODES):
            (folder / made).mkdir(mode=0o755)
        try:
            self._start_munge()
            self._start_slurm()
        except BaseException:
            self.close()
            raise

    def run(self, *words: str) -> str:
        """The answer of one of Slurm's commands."""
        done = subprocess.run(
            words,
            env={**os.environ, **self.settings},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def jobs(self) -> list[str]:
        """Jobs that wait or run."""
        return self.run("squeue", "--noheader", "--format=%i %T").splitlines()

    def hold(self, held: bool) -> None:
        """Let no job begin, as on a full cluster."""
        self.run("scontrol", "update", "partition=all", f"state={'DOWN' if held else 'UP'}")

    def forget_steps(self) -> None:
        """End what Slurm itself runs beside each job, without a word, as the kernel does where memory is short."""
        own = str(self.folder).encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, settings = (entry / "comm").read_text().strip(), (entry / "environ").read_bytes()
                if name.startswith("slurmstepd") and own in settings:
                    os.kill(int(entry.name), signal.SIGKILL)

    def close(self) -> None:
        if self._daemons:
            with contextlib.suppress(AssertionError):
                self.run("scancel", "--user=root")
        for daemon in reversed(self._daemons):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()

    def _daemon(self, *words: str) -> None:
        with (self.folder / "daemons.log").open("ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, **self.settings},
                    cwd=self.folder,
                )
            )

    def _start_munge(self) -> None:
        munge, key = self.folder / "munge", self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        words = [str(PROGRAMS["munged"]), "--foreground", "--force", f"--key-file={key}"]
        words += [f"--{kind}-file={munge / kind}" for kind in ("pid", "seed", "log")]
        self._daemon(*words, f"--socket={munge / 'socket'}")
        self._wait_until(lambda: (munge / "socket").exists())

    def _start_slurm(self) -> None:
        host = socket.gethostname()
        lines = [
            "ClusterName=trial",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={free_port()}",
            # The number of a job gives the port at which its ranks meet: clusters on one machine keep apart.
            f"FirstJobId={1 + free_port() % 20000}",
            *("SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge"),
            f"AuthInfo=socket={self.folder / 'munge' / 'socket'}",
            f"StateSaveLocation={self.folder / 'state'}",
            *(f"SlurmdSpoolDir={self.folder}/%n", f"SlurmdPidFile={self.folder}/%n.pid"),
            *(
                f"SlurmctldPidFile={self.folder}/slurmctld.pid",
                f"SlurmctldLogFile={self.folder}/slurmctld.log",
            ),
            f"SlurmdLogFile={self.folder}/%n.log",
            *(
                "ProctrackType=proctrack/linuxproc",
                "TaskPlugin=task/none",
                "JobAcctGatherType=jobacct_gather/none",
            ),
            *("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "SchedulerType=sched/builtin"),
            *(
                "MpiDefault=none",
                "ReturnToService=2",
                "SwitchType=switch/none",
                "KillWait=2",
                "SlurmdTimeout=60",
            ),
            *(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 State=UNKNOWN"
                for name in NODES
            ),
            f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=10 State=UP",
        ]
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._daemon(str(PROGRAMS["slurmctld"]), "-D")
        for name in NODES:
            self._daemon(str(PROGRAMS["slurmd"]), "-D", "-N", name)
        self._wait_until(lambda: self._idle_nodes() == len(NODES))

    def _idle_nodes(self) -> int:
        with contextlib.suppress(AssertionError):
            return self.run("sinfo", "--noheader", "--Node", "--format=%T").split().count("idle")
        return 0

    def _wait_until(self, known: Callable[[], bool], seconds: float = 150.0) -> None:
        until = time.monotonic() + seconds
        while not known():
            if time.monotonic() > until:
                logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log")]
                raise AssertionError("\n".join(logs))
            time.sleep(0.1)
