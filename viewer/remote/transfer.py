"""Files brought here: packed on the way, resumed where a connection broke, verified before anybody relies on them."""

from __future__ import annotations

import contextlib
import hashlib
import time
import zlib
from pathlib import Path

from parsers.model import Progress, refused_by_system
from parsers.model.units import size as shown_size
from viewer.remote.far import Far
from viewer.remote.names import PlaceProblem, Unreachable

PACKED_ALREADY = (".gz", ".zst", ".zip", ".xz", ".bz2", ".ncu-rep", ".parquet")
DIGEST_SECONDS = 900.0
RECONNECT_SECONDS = 120.0
_GZIP = 31  # zlib's name for a stream with gzip's header


def fetch(far: Far, source: str, target: Path, progress: Progress | None = None) -> Path:
    """Bring a file to ``target``, which appears whole and verified by size and hash, or not at all.

    What came before a connection broke is kept beside it and continued, also by a later call. Raises ``Cancelled``, and
    ``PlaceProblem`` for what cannot be read there, or a connection that stays broken.
    """
    progress = progress or Progress()
    name = target.name
    progress.step(0.0, f"looking at {name} on {far.name}")
    length, digest = _length_and_digest(far, source)
    part = target.with_name(f".{name}.{digest[:12] or length}.part")
    try:
        for attempt in range(2):
            _fetch_the_rest(far, source, part, length, progress)
            if _is_whole(part, length, digest):
                part.replace(target)
                return target
            if attempt == 0:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise refused_by_system(error, part) from error
    part.unlink(missing_ok=True)
    raise PlaceProblem(
        far.name, f"{name} changed while it was fetched.", "Fetch it again once nothing writes to it."
    )


def _length_and_digest(far: Far, source: str) -> tuple[int, str]:
    """The length in bytes and the SHA-256 in hex, which is empty where nothing there can tell it."""
    for attempt in range(2):
        try:
            words = far.ask("digest", source, seconds=DIGEST_SECONDS).split()
            break
        except Unreachable:
            if attempt:
                raise
            reconnect(far, Progress())
    if not words or not words[0].isdigit():
        raise PlaceProblem(far.name, f"{source} cannot be read there.", "Check its permissions.")
    digest = next((word for word in words[1:] if len(word) == 64), "")
    return int(words[0]), digest


def _fetch_the_rest(far: Far, source: str, part: Path, length: int, progress: Progress) -> None:
    """Append to ``part`` until it has the length, over as many connections as it takes."""
    form = "plain" if source.lower().endswith(PACKED_ALREADY) else "packed"
    began, carried = time.monotonic(), 0
    with part.open("ab", buffering=0) as copy:
        while (have := copy.tell()) < length:
            unpacking = zlib.decompressobj(_GZIP) if form == "packed" else None
            with far.speaking("send", source, str(have + 1), form) as speaking:
                for piece in speaking.pieces(progress.stop_if_wanted):
                    carried += len(piece)
                    copy.write(unpacking.decompress(piece) if unpacking else piece)
                    progress.step(copy.tell() / length, _said(part, copy.tell(), length, carried, began))
                code = speaking.exit_code()
            if copy.tell() >= length:
                return
            if code == 0 or not speaking.is_lost:
                raise PlaceProblem(far.name, f"{source} could not be read to its end.", speaking.said.strip())
            reconnect(far, progress)


def reconnect(far: Far, progress: Progress, seconds: float = RECONNECT_SECONDS) -> None:
    """Connect again, and again after a while; raises ``Unreachable`` when that has failed for so long."""
    until = time.monotonic() + seconds
    pause = 0.5
    while True:
        try:
            far.open()
            return
        except Unreachable:
            if time.monotonic() + pause > until:
                raise
        progress.step(0.0, f"the connection to {far.name} broke; trying again")
        resume = time.monotonic() + pause
        while time.monotonic() < resume:
            progress.stop_if_wanted()
            time.sleep(0.05)
        pause = min(2 * pause, 10.0)


def _said(part: Path, have: int, length: int, carried: int, began: float) -> str:
    seconds = max(time.monotonic() - began, 1e-3)
    rate = carried / seconds
    return f"fetching {shown_size(have)} of {shown_size(length)}, {shown_size(rate)}/s"


def _is_whole(part: Path, length: int, digest: str) -> bool:
    if not part.exists():
        with contextlib.suppress(OSError):
            part.touch()
    if part.stat().st_size != length:
        return False
    if not digest:
        return True
    with part.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest
