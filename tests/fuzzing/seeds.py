"""What the fuzzing begins with: the smallest recordings of every format, archives of them, and a session."""

from __future__ import annotations

import functools
import gzip
import io
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path

from parsers.files.base import parser_of
from parsers.files.source import identify
from tests.fuzzing.small_seeds import small_seeds
from tests.parsers.storage.readings import FIXTURES, GOLDEN, NO_RECORDINGS
from viewer.user_data.session import Session

SQLITE = b"SQLite format 3\0"
SESSION, ARCHIVE, MADE = "session", "archive", "made"
FILES_A_FORMAT = 4
MAX_TEXT_BYTES = 60_000
MAX_BYTES = 9 << 20


def formats() -> list[str]:
    """What can be damaged: every format that a recording of the tests has, archives of them, and sessions.

    ``MADE`` is none that is damaged: recordings in which one amount grows (``tests.growing_recordings``).
    """
    return sorted({*_files_by_format(), ARCHIVE, MADE, SESSION})


def seeds(format: str) -> list[bytes]:
    """Sound inputs of a format, unpacked, the small ones first; the longer text ones cut, which damages their end."""
    if format == SESSION:
        return [_session()]
    if format == MADE:
        return [b""]
    small = small_seeds()
    if format == ARCHIVE:
        ranks = small["chrome"]
        return [
            _zip(ranks),
            _tar(ranks),
            gzip.compress(_tar([*ranks, *small["smi-log"]])),
            _zip(small["nsys-sqlite"]),
        ]
    of_files = [_unpacked(file) for file in _files_by_format()[format][:FILES_A_FORMAT]]
    return [*small.get(format, ()), *(data for data in of_files if len(data) <= MAX_BYTES)]


@functools.cache
def _files_by_format() -> dict[str, list[Path]]:
    """Recordings that are kept with the tests, the smallest first."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(FIXTURES.glob("*/*"), key=lambda each: each.stat().st_size):
        if not file.is_file() or file.suffix in NO_RECORDINGS or file.name.endswith(GOLDEN):
            continue
        parser = parser_of(identify(file))
        if parser is not None:
            found[parser.format].append(file)
    return found


def _unpacked(file: Path) -> bytes:
    data = file.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return data[:MAX_TEXT_BYTES] if is_text(data) else data


def is_text(data: bytes) -> bool:
    return b"\0" not in data


def _session() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.stallscope"
        session = Session(path, [Path("/data/rank0.json"), Path("/data/rank1.json")])
        session.add(0, 1_000, "late", "since the change")
        session.add(5, 7, "kernel", event=3)
        session.keep("lanes", {"pinned": ["GPU 0"], "hidden": [], "heights": {}, "order": []})
        session.close()
        return path.read_bytes()


def _zip(files: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(files):
            archive.writestr(f"rank{number}.json", data)
    return buffer.getvalue()


def _tar(files: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, data in enumerate(files):
            member = tarfile.TarInfo(f"rank{number}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
