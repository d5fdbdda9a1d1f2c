"""What a gate answered, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rules.gates.judging import Answer, overall


def gate_json(answers: Sequence[Answer]) -> dict[str, Any]:
    """The keys ``gate`` and ``limits``; the bounds are those of after over before."""
    if not answers:
        return {}
    return {
        "gate": overall(answers).value,
        "limits": [
            {
                "on": answer.limit.written,
                "percent": answer.limit.percent,
                "decision": answer.decision.value,
                "why": answer.why,
                "before": answer.before or None,
                "after": answer.after or None,
                "low": answer.low,
                "high": answer.high,
            }
            for answer in answers
        ],
    }
