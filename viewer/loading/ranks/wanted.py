"""What a process of the pool or a worker of a cluster is asked, and what it answers."""

from __future__ import annotations

from parsers.model.late.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """One recording: the paths or addresses of its files, what to call it, and the thresholds that were chosen."""

    files: tuple[str, ...]
    shown: str
    thresholds: tuple[tuple[str, float], ...] = ()
    remote: bool = False  # its files are addresses that fsspec opens
    format: str = ""  # what they were recognised as, if somebody has looked


@dataclass(frozen=True, slots=True)
class Reduced:
    """The summary as bytes, or why there is none, in one sentence."""

    content: bytes = b""
    problem: str = ""
