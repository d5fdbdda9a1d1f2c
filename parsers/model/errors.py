"""The failures a user can act on: one sentence of problem, one of hint."""

from __future__ import annotations

from pathlib import Path


class TraceError(Exception):
    """A file that cannot be used, said so that its owner can do something about it.

    ``problem`` is one plain sentence; ``hint`` says what to do next.
    """

    def __init__(self, path: Path | str, problem: str, hint: str = "") -> None:
        super().__init__(f"{path}: {problem}" + (f" {hint}" if hint else ""))
        self.path = Path(path)
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type[TraceError], tuple[Path, str, str]]:
        return type(self), (self.path, self.problem, self.hint)


class UnknownFormat(TraceError):
    """No parser recognises the first bytes of the file."""


class Malformed(TraceError):
    """A known format, damaged beyond what can be repaired."""


class Cancelled(Exception):
    """The user stopped the work; nothing is wrong."""
