"""How well the promises of each fix held on this machine, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rules.trials.record import COVERAGE, FixRecord
from viewer.reports.rendering.blocks import Report, Table, Text

_COLUMNS = ("fix", "trials", "held", f"measured / promised ({COVERAGE:.0%} of trials)")
TITLE = "How well promises held on this machine"
NOTHING = "No trial of a promise has been kept yet: `stallscope try` keeps them."


def records_report(records: Sequence[FixRecord]) -> Report:
    """One row a fix, those with most trials first."""
    if not records:
        return Report(TITLE, (Text((NOTHING,)),))
    rows = [(each.fix, str(each.trials), str(each.held), _band(each)) for each in records]
    return Report(TITLE, (Table("", _COLUMNS, rows),))


def records_json(records: Sequence[FixRecord]) -> dict[str, Any]:
    """The object that ``stallscope trend --promises --json`` prints."""
    return {
        "promises": [
            {
                "fix": each.fix,
                "trials": each.trials,
                "held": each.held,
                "correction": {
                    "low": round(found.low, 3),
                    "middle": round(found.middle, 3),
                    "high": round(found.high, 3),
                }
                if (found := each.correction) is not None
                else None,
            }
            for each in records
        ]
    }


def _band(record: FixRecord) -> str:
    found = record.correction
    return (
        f"{found.middle:.2f} ({found.low:.2f} to {found.high:.2f})" if found is not None else "too few trials"
    )
