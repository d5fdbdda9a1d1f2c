"""Tells the person or the program that started the recording what it is doing, on the real standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, Dict

MARK = "\x1e"
WORD = "STALLSCOPE"


class Status:
    """One line a message: plain text for a person, or marked JSON that survives in the middle of other output."""

    def __init__(self, mode: str, rank: int) -> None:
        self.mode = mode
        self.rank = rank
        self._descriptor = -1
        if mode != "none":
            with contextlib.suppress(OSError, ValueError, AttributeError):
                self._descriptor = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else -1

    def say(self, phase: str, **more: Any) -> None:
        """Report a phase: ``starting warming-up recording writing done problem``."""
        if self._descriptor < 0:
            return
        if self.mode == "lines":
            message: dict[str, Any] = {"phase": phase, "rank": self.rank}
            message.update(more)
            line = "{}{} {}\n".format(MARK, WORD, json.dumps(message))
        elif phase == "failed":
            return
        else:
            line = "[stallscope] {}\n".format(self._sentence(phase, more))
        with contextlib.suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))

    def _sentence(self, phase: str, more: Dict[str, Any]) -> str:
        words: list[str] = [] if self.rank < 0 else ["rank {}:".format(self.rank)]
        words.append(phase.replace("-", " "))
        if "step" in more:
            words.append("step {} of {}".format(more["step"], more["of"]))
        words.extend(str(more[key]) for key in ("text", "path") if key in more)
        return " ".join(words)
