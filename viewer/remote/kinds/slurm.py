"""A cluster that Slurm schedules: programs are submitted as jobs, from this machine or from a login node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from viewer.remote.kinds.ssh import Ssh
from viewer.remote.names import PlaceProblem, Reach, place_kind
from viewer.remote.slurm_script import FOLLOW

SHARED = "--shared="


@place_kind
class Slurm:
    """Requests run on the login node; what is started there is a job of ``sbatch`` with the options of the place.

    ``--shared=DIR`` among them is ours: a folder that every node sees, the home folder by default.
    """

    kind: ClassVar[str] = "slurm"
    title: ClassVar[str] = "a Slurm cluster"
    example: ClassVar[str] = "slurm:LOGIN --nodes 2"

    def __init__(self, name: str, below: Reach | None) -> None:
        if below is not None and not isinstance(below, Ssh):
            raise PlaceProblem(
                "slurm", "Slurm is reached from a login node.", f"Write it like {self.example}."
            )
        self._login: Reach | None = Ssh(name, None) if name and below is None else below

    def open(self) -> None:
        if self._login is not None:
            self._login.open()

    def words(self, words: Sequence[str]) -> list[str]:
        return list(words) if self._login is None else self._login.words(words)

    def is_lost(self, exit_code: int) -> bool:
        return self._login is not None and self._login.is_lost(exit_code)

    def close(self) -> None:
        if self._login is not None:
            self._login.close()

    def base(self, options: Sequence[str]) -> str:
        """Where folders are made that all nodes see."""
        shared = [option.removeprefix(SHARED) for option in options if option.startswith(SHARED)]
        return shared[-1] if shared else "~"

    def submission(
        self, folder: str, setup: str, options: Sequence[str], spread: str, words: Sequence[str]
    ) -> list[str]:
        """Words that submit these words as a job, and print and end as it does."""
        own = [option for option in options if not option.startswith(SHARED)]
        name = f"--job-name={folder.rpartition('/')[2]}"
        job = [f"{folder}/job", folder, setup, spread, *words]
        return ["sh", "-c", FOLLOW, "stallscope", folder, *own, name, *job]
