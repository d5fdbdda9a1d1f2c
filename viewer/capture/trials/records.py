"""How promises of each fix held in the trials that were kept, for what is said beside the promises of a recording.

What keeps the journal is loaded where there is one: most diagnoses tell of none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from viewer.user_data.storage import RUNS_FILE, data_folder

if TYPE_CHECKING:
    from parsers.model import Trace
    from rules.trials.record import FixRecord


def trial_records(trace: Trace) -> dict[str, FixRecord]:
    """By fix, of the machine where a recording was made, or of this one; none where no journal can be read."""
    try:
        if not (data_folder() / RUNS_FILE).exists():
            return {}
    except OSError:
        return {}
    from viewer.capture.trials.journal import records_for

    return records_for([Path(each.file) for each in trace.inputs if each.file])
