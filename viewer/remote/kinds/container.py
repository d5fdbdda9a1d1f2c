"""A running container of Docker or Podman, or one that is made of an image; an instance or an image of Apptainer."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from typing import ClassVar

from parsers import program_search
from viewer.remote.names import BOUNDS, PlaceProblem, Reach, Unreachable, place_kind

ENGINES = ("docker", "podman")
APPTAINER = ("apptainer", "singularity")


@place_kind
class Container:
    """Reached by ``exec``; of an image a container is started, which goes with the connection."""

    kind: ClassVar[str] = "container"
    title: ClassVar[str] = "a container"
    example: ClassVar[str] = "container:NAME"

    def __init__(self, name: str, below: Reach | None) -> None:
        if not name:
            raise PlaceProblem("container", "A container needs its name.", f"Write it like {self.example}.")
        self.name = name
        self._below = below
        self._prefix: list[str] = []
        self._started = ""

    def open(self) -> None:
        if self._below is not None:
            self._below.open()
        if self._prefix:
            return
        if self.name.endswith(".sif") or self.name.startswith("instance://"):
            engine = self._first_that_answers([[each, "--version"] for each in APPTAINER])
            self._prefix = [engine, "exec", self.name]
            return
        engine = self._first_that_answers(
            [[each, "container", "inspect", self.name] for each in ENGINES], False
        )
        if engine:
            self._prefix = [engine, "exec", "-i", self.name]
            return
        engine = self._first_that_answers([[each, "image", "inspect", self.name] for each in ENGINES])
        words = [engine, "run", "-d", "--rm", "--init", "--entrypoint", "sleep", self.name, "infinity"]
        self._started = self._run(words).stdout.strip().splitlines()[-1:][0]
        self._prefix = [engine, "exec", "-i", self._started]

    def words(self, words: Sequence[str]) -> list[str]:
        return self._here([*self._prefix, *words])

    def is_lost(self, exit_code: int) -> bool:
        return self._below is not None and self._below.is_lost(exit_code)

    def close(self) -> None:
        started, self._started = self._started, ""
        if started:
            with contextlib.suppress(PlaceProblem):
                self._run([self._prefix[0], "rm", "-f", started])
        self._prefix = []
        if self._below is not None:
            self._below.close()

    def _here(self, words: Sequence[str]) -> list[str]:
        return list(words) if self._below is None else self._below.words(words)

    def _first_that_answers(self, tries: list[list[str]], needed: bool = True) -> str:
        said = ""
        for words in tries:
            done = self._run(words, check=False)
            if done.returncode == 0:
                return words[0]
            said = done.stderr or said
        if not needed:
            return ""
        lines = said.strip().splitlines()
        raise PlaceProblem(
            f"container:{self.name}",
            f"There is no such container or image ({lines[-1].rstrip('.') if lines else 'no engine answers'}).",
            f"Name one that `{tries[0][0]}` knows.",
        )

    def _run(self, words: Sequence[str], check: bool = True) -> subprocess.CompletedProcess[str]:
        try:
            done = program_search.answer_of(self._here(words), BOUNDS.request)
        except FileNotFoundError:
            return subprocess.CompletedProcess(list(words), 127, "", f"{words[0]} is not installed")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unreachable(f"container:{self.name}", f"{words[0]} does not answer ({error}).") from None
        if check and done.returncode:
            lines = done.stderr.strip().splitlines() or ["no answer"]
            raise PlaceProblem(f"container:{self.name}", f"{words[0]} failed ({lines[-1].rstrip('.')}).")
        return done
