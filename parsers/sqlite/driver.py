"""The Arrow driver that reads the tables; an installation without a working one says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parsers.model import TraceError


def connect(path: Path, uri: str) -> Any:
    """A connection to the database at ``uri``; raises ``TraceError`` about ``path`` when there is no driver.

    Raises the driver's own errors when it works and the database is the problem.
    """
    try:
        from adbc_driver_manager import Error
        from adbc_driver_sqlite import dbapi
    except (ImportError, OSError) as error:
        raise _without_driver(path, error) from error
    try:
        return dbapi.connect(uri, autocommit=True)
    except (Error, OSError) as error:
        try:
            dbapi.connect(":memory:").close()
        except (Error, OSError):
            raise _without_driver(path, error) from error
        raise


def _without_driver(path: Path, error: Exception) -> TraceError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return TraceError(
        path,
        f"This installation cannot read SQLite files, because its driver does not load ({reason}).",
        "The file is fine. Install Stallscope again; from source: pip install --force-reinstall adbc-driver-sqlite.",
    )
