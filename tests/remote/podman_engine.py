"""A real podman with its own storage and an image made of the shell and tools of this machine; no registry is asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.remote.far_machine import BARE, NSYS

IMAGE = "localhost/stallscope-trial:1"
_WRAPPER = """#!/bin/sh
CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf
export CONTAINERS_CONF CONTAINERS_STORAGE_CONF
exec unshare --mount sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"' sh {podman} "$@"
"""
"""crun takes no mixture of both versions of cgroups: the part of the second is out of its sight."""
_SETTINGS = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
cgroups = "disabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


class PodmanEngine:
    """``bin`` is a folder for PATH; raises ``Unusable`` with podman's own words where nothing can be run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        real = shutil.which("podman")
        if real is None:
            raise Unusable("there is no podman here")
        if os.getuid() != 0:
            raise Unusable("running podman here takes root")
        self.bin.mkdir()
        (folder / "containers.conf").write_text(_SETTINGS)
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n'
        )
        (self.bin / "podman").write_text(_WRAPPER.format(folder=folder, podman=real))
        (self.bin / "podman").chmod(0o755)
        self._make_root(folder / "root")
        with tarfile.open(folder / "root.tar", "w") as archive:
            archive.add(folder / "root", ".")
        self.run("import", str(folder / "root.tar"), IMAGE)
        self.run("run", "--rm", IMAGE, "true")

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.bin / "podman"), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise Unusable(f"podman cannot run here: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def close(self) -> None:
        self.run("rm", "--all", "--force", "--time", "0")
        self.run("rmi", "--all", "--force")

    def _make_root(self, root: Path) -> None:
        for name in ("bin", "tmp", "root", "dev", "proc", "sys", "etc"):
            (root / name).mkdir(parents=True)
        for name in (*BARE, "true"):
            program = Path(shutil.which(name) or f"/bin/{name}").resolve()
            shutil.copy(program, root / "bin" / name)
            needed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
            for library in re.findall(r"/[^ ]+", needed):
                target = root / library.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
        (root / "bin" / "nsys").write_text(NSYS)
        (root / "bin" / "nsys").chmod(0o755)


class Unusable(Exception):
    """Why podman cannot be used here."""
