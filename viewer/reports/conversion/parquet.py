"""Writes a frame as Parquet, with Arrow or, where its part for that is not installed, with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_parquet(frame: pd.DataFrame, out: Path) -> None:
    """Write one file. Raises ``OSError``, and ``ImportError`` where neither library is there."""
    try:
        frame.to_parquet(out, index=False)
    except ImportError:
        import duckdb

        with duckdb.connect(":memory:") as writer:
            writer.register("answer", frame)
            try:
                place = str(out).replace("'", "''")
                writer.execute(f"COPY answer TO '{place}' (FORMAT parquet)").fetchall()
            except duckdb.IOException as error:
                raise OSError(str(error)) from None
