"""Separates what a recorded program prints from what the runner and the Nsight tools say about their progress."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from parsers.model.late import dataclass, regex
from viewer.capture.torch_runner.stallscope_recorder.status import MARK, WORD

_MARKED = regex(MARK + WORD + r" (\{[^\n]*)\n")
_MAX_MESSAGE_LENGTH = 1 << 16
_NCU_KERNEL = regex(r"==PROF== Profiling \"(?P<kernel>.+?)\".*?: (?P<percent>\d+)%")
_NCU_PASSES = regex(r"100% - (\d+) pass")
_BAR = regex(r"(\d{1,3})%")

PHASE_TEXT = {
    "starting": "starting",
    "waiting": "waiting for the first steps",
    "steps-found": "steps found",
    "warming-up": "warming up",
    "recording": "recording",
    "writing": "writing",
    "written": "written",
    "trying": "trying",
    "stopping": "recorded, stopping the script",
    "converting": "converting",
    "fetching": "fetching the recording",
    "lost": "connection lost",
    "found": "connected again",
    "left": "",
    "queued": "",
    "incident": "slow step:",
    "done": "done",
    "failed": "the script failed",
    "problem": "problem",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something said about the recording: its phase, whose, and numbers or text with it."""

    phase: str
    rank: int = -1
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The phase for a person: ``recording step 3 of 5``."""
        words = [PHASE_TEXT.get(self.phase, self.phase)]
        if "step" in self.values:
            words.append(f"step {self.values['step']} of {self.values.get('of')}")
        elif self.phase in ("recording", "lost", "left", "queued", "incident") and "text" in self.values:
            words.append(str(self.values["text"]))
        elif "percent" in self.values:
            words.append(f"{self.values['percent']} %")
        if "kernel" in self.values:
            words.append(str(self.values["kernel"]))
        return (", " if self.phase == "lost" else " ").join(filter(None, words))


class OutputStream:
    """Fed with bytes as they come; gives events and the program's own text, in order."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.passes: list[int] = []

    def feed(self, data: bytes, last: bool = False) -> Iterator[Event | str]:
        """Text without the marked messages, and the messages; a message cut in the middle waits for its end."""
        text = self._held + self._decoder.decode(data, last)
        self._held = ""
        at = 0
        for match in _MARKED.finditer(text):
            if match.start() > at:
                yield from self._plain(text[at : match.start()])
            at = match.end()
            event = _event(match.group(1))
            if event is not None:
                yield event
        rest = text[at:]
        cut = rest.find(MARK)
        if cut >= 0 and not last and len(rest) - cut < _MAX_MESSAGE_LENGTH:
            rest, self._held = rest[:cut], rest[cut:]
        if rest:
            yield from self._plain(rest)

    def _plain(self, text: str) -> Iterator[Event | str]:
        yield text
        kernels = list(_NCU_KERNEL.finditer(text))
        self.passes += [int(count) for count in _NCU_PASSES.findall(text)]
        if kernels:
            last = kernels[-1]
            yield Event("recording", values={"kernel": last["kernel"]})
        elif "Generating '" in text or "Processing" in text or "Exporting" in text:
            bars = _BAR.findall(text)
            phase = "writing" if "Generating '" in text else "converting"
            yield Event(phase, values={"percent": int(bars[-1])} if bars else {})


def _event(text: str) -> Event | None:
    try:
        read = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(read, dict) or not isinstance(read.get("phase"), str):
        return None
    rank = read.get("rank", -1)
    values = {key: value for key, value in read.items() if key not in ("phase", "rank")}
    return Event(read["phase"], rank if isinstance(rank, int) else -1, values)
