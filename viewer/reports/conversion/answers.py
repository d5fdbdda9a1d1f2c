"""A frame that somebody asked for, as CSV, JSON or Parquet, by the ending of the file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from viewer.kept.storage import in_one_piece
from viewer.reports.conversion.parquet import write_parquet
from viewer.reports.conversion.tables import without_formulas

ENDINGS = (".csv", ".json", ".parquet")


def write_frame(frame: pd.DataFrame, out: Path) -> None:
    """Write a table in one piece or not at all. Raises ``OSError``, and ``ValueError`` for another ending."""
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError("The ending of the file says its format: use .csv, .json or .parquet.")
    with in_one_piece(out) as part:
        if ending == ".parquet":
            write_parquet(frame, part)
        elif ending == ".json":
            frame.to_json(part, orient="records")
        else:
            without_formulas(frame).to_csv(part, index=False)
