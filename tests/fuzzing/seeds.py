"""What the fuzzing begins with: the smallest recordings of every format, archives of them, and a session."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path

from parsers.base import parser_of
from parsers.source import identify
from tests.parsers.stored.readings import FIXTURES, GOLDEN, NO_RECORDINGS
from viewer.kept.session import Session

SQLITE = b"SQLite format 3\0"
SESSION, ARCHIVE = "session", "archive"
SEEDS_A_FORMAT = 4
LONGEST_TEXT = 60_000
LARGEST = 8 << 20
OTHER_PRODUCERS = (
    b'{"traceEvents":[{"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:0"}},'
    b'{"ph":"M","pid":2,"tid":7,"name":"thread_name","args":{"name":"Stream #13(Compute)"}},'
    b'{"ph":"X","pid":2,"tid":7,"ts":1.5,"dur":2,"name":"fusion","args":{"hlo_op":"fusion.1","correlation_id":"7"}},'
    b'{"ph":"b","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":2},{"ph":"n","cat":"io","id":"0x1",'
    b'"name":"half","pid":1,"tid":1,"ts":3},{"ph":"e","cat":"io","id":"0x1","name":"read","pid":1,"tid":1,"ts":9},'
    b'{"ph":"B","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"E","pid":1,"tid":1,"ts":8},'
    b'{"ph":"C","name":"queue","pid":1,"ts":4,"args":{"length":3}},{"ph":"i","s":"g","name":"mark","pid":1,"ts":4},'
    b'{"ph":"s","id":1,"pid":1,"tid":1,"ts":2,"name":"flow"},{"ph":"f","bp":"e","id":1,"pid":2,"tid":7,"ts":3}],'
    b'"metadata":{"highres-ticks":true},"displayTimeUnit":"ns"}'
)


def seeds() -> dict[str, list[bytes]]:
    """Recordings by format, unpacked; the longer text ones cut, which damages their end already."""
    sized: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    for file in FIXTURES.glob("*/*"):
        if not file.is_file() or file.suffix in NO_RECORDINGS or file.name.endswith(GOLDEN):
            continue
        parser = parser_of(identify(file))
        if parser is not None:
            sized[parser.format].append((file.stat().st_size, file))
    found = {}
    for format, files in sorted(sized.items()):
        unpacked = [_unpacked(file) for _, file in sorted(files)[:SEEDS_A_FORMAT]]
        found[format] = [data for data in unpacked if len(data) <= LARGEST]
    found["chrome"].append(OTHER_PRODUCERS)
    ranks = [data[:20_000] for data in found["chrome"][:3]]
    found[ARCHIVE] = [_zip(ranks), _tar(ranks), gzip.compress(_tar([*ranks, found["smi-log"][0]]))]
    found[SESSION] = [_session()]
    return found


def _unpacked(file: Path) -> bytes:
    data = file.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return data[:LONGEST_TEXT] if is_text(data) else data


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
