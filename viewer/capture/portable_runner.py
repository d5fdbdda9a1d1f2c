"""The runner as one file that can be copied to another machine and run there with any Python that has torch."""

from __future__ import annotations

import zipfile
from pathlib import Path

from viewer.capture.commands import RUNNER

FILE_NAME = "stallscope_runner.pyz"


def save_runner(path: Path) -> Path:
    """Write the runner as a zip file that ``python FILE`` runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(RUNNER.rglob("*.py")):
            if source.parent == RUNNER and source.name == "__init__.py":
                continue
            entry = zipfile.ZipInfo(source.relative_to(RUNNER).as_posix(), (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_text(encoding="utf-8"))
    return path
