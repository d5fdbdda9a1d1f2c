"""Ranks that are reduced where they lie: another machine that has Stallscope sends summaries instead of recordings."""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from parsers.files.fetched import address_of
from parsers.model import Progress
from parsers.model.units import size as shown_size
from rules.summaries.rank_summary import RankSummary
from rules.terms import Thresholds
from viewer.loading.ranks import summaries
from viewer.loading.ranks.asking import FULL_RANKS
from viewer.loading.ranks.summaries import Reduced
from viewer.remote.addresses import DEEPEST, SSH, Entry, far_path, store_of
from viewer.remote.far import Far
from viewer.remote.names import PlaceProblem

PROGRAM = "stallscope"
_LENGTH = struct.Struct("<I")
_GZIP = 31
_LOG = logging.getLogger(__name__)


def framed(name: str, reduced: Reduced) -> bytes:
    """One rank as it travels."""
    packed = msgspec.msgpack.encode((name, reduced.content, reduced.problem))
    return _LENGTH.pack(len(packed)) + packed


def unframed(pieces: Iterator[bytes]) -> Iterator[tuple[str, Reduced]]:
    """The ranks of a stream of frames, as they come; raises ``ValueError`` for anything else."""
    held = b""
    for piece in pieces:
        held += piece
        while len(held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held)
            if len(held) < _LENGTH.size + length:
                break
            packed, held = held[_LENGTH.size : _LENGTH.size + length], held[_LENGTH.size + length :]
            name, content, problem = msgspec.msgpack.decode(packed, type=tuple[str, bytes, str])
            yield name, Reduced(content, problem)
    if held:
        raise ValueError("the stream of summaries was cut off")


def reduced_there(
    path: Path, progress: Progress, thresholds: Thresholds
) -> tuple[list[Entry], dict[int, RankSummary], list[tuple[str, str]]] | None:
    """Files of a run of many ranks at an address, the summaries of those that could be reduced there, and the others.

    None where nobody there can do that, or where the files are so few that they are better fetched. Raises
    ``TraceError`` for an address that cannot be reached, and ``Cancelled``.
    """
    address = address_of(path)
    if not address.startswith(f"{SSH}://"):
        return None
    with store_of(address) as store:
        files = [each for each in store.entries(address, DEEPEST) if not each.is_folder]
        if len(files) <= FULL_RANKS:
            return None
        chosen = dict(sorted(thresholds.chosen.items()))
        keys = [
            summaries.key_at(each.address, (each.bytes, int(each.modified * 1e9)), chosen) for each in files
        ]
        found = {
            number: known for number, key in enumerate(keys) if (known := summaries.kept(key)) is not None
        }
        missing = [number for number in range(len(files)) if number not in found]
        unread: list[tuple[str, str]] = []
        if missing:
            far = getattr(store, "far", None)
            if not isinstance(far, Far) or not far.has(PROGRAM):
                return None

            def answer(number: int, reduced: Reduced) -> None:
                if reduced.problem:
                    unread.append((files[number].name, reduced.problem))
                    return
                found[number] = summaries.summary_of_bytes(reduced.content)
                summaries.keep(keys[number], reduced.content)

            try:
                _reduce(
                    far, address, [files[number] for number in missing], missing, chosen, answer, progress
                )
            except (ValueError, msgspec.MsgspecError):
                _LOG.warning("the other machine's Stallscope is of another version", exc_info=True)
                return None
            summaries.ENTRIES.trim()
    return files, found, unread


def _reduce(
    far: Far,
    address: str,
    files: Sequence[Entry],
    numbers: Sequence[int],
    thresholds: dict[str, float],
    answer: Callable[[int, Reduced], None],
    progress: Progress,
) -> None:
    paths = {far_path(each.address): number for each, number in zip(files, numbers, strict=True)}
    root = far_path(address)
    options = [word for name, value in thresholds.items() for word in ("--threshold", f"{name}={value!r}")]
    carried = done = 0

    def counted(pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal carried
        unpacking = zlib.decompressobj(_GZIP)
        for piece in pieces:
            carried += len(piece)
            yield unpacking.decompress(piece)

    progress.step(0.0, f"reducing {len(files):,} ranks on {far.name}")
    with far.speaking("packed", PROGRAM, "reduce", *options, "--below", root, "--", *paths) as speaking:
        for name, reduced in unframed(counted(speaking.pieces(progress.stop_if_wanted))):
            if name not in paths:
                raise ValueError("a summary of a file that nobody asked for")
            answer(paths.pop(name), reduced)
            done += 1
            progress.step(
                done / len(files),
                f"reduced {done:,} of {len(files):,} ranks there, {shown_size(carried)} fetched",
            )
        code = speaking.exit_code()
    if paths:
        said = speaking.said.strip().splitlines()
        why = said[-1] if said else f"exit code {code}"
        raise PlaceProblem(far.name, f"The ranks could not be reduced there ({why}).", "Fetch them instead.")
