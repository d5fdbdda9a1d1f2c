"""A parser that makes something else of a recording has another version, so that no cache answers for it."""

from __future__ import annotations

import json

from .readings import RECORDED, readings


def test_what_a_parser_of_a_version_makes_of_a_recording_stays_the_same() -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    for format, (version, digests) in readings().items():
        before, known = recorded.get(format, (None, {}))
        changed = [name for name, number in digests.items() if known.get(name, number) != number]
        assert version != before or not changed, (
            f"{format} makes something else of {changed}: raise its version, "
            "then run python -m tests.parsers.storage.readings"
        )
        assert (version, digests) == (before, known), (
            f"{format} has a new version or fixture: run python -m tests.parsers.storage.readings"
        )
