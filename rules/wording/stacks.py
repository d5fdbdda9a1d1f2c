"""What is told only of recordings that hold no stacks: nobody is asked for what was recorded."""

from __future__ import annotations

from parsers.model import Trace
from rules.wording.words import Words


def without_stacks(trace: Trace, words: Words) -> Words:
    """The words, or none where Python's stacks were recorded."""
    return "" if trace.capture.with_stack else words
