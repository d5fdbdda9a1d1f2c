"""Folders and archives of recordings: what is in them, unpacked where nobody else can read it."""

from __future__ import annotations

import base64
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import IO, Any, cast

from parsers.files.base import Source
from parsers.files.fetched import address_of
from parsers.files.private_folder import PrivateFolder
from parsers.files.signatures import ZIP
from parsers.files.source import READ_ERRORS, identify, open_bytes
from parsers.files.unpacking_limit import UnpackingLimit
from parsers.model import ArgumentSource, Malformed, Progress, Trace, TraceError, refused_by_system
from parsers.model.late import dataclass, regex

MAX_MEMBERS = 20_000  # files: a run of many ranks has one for each
MAX_UNPACKED = 64 << 30
MAX_GROWTH = 300  # times the archive's size, once it is large
_FREE_GROWTH = 256 << 20
_FREE_MEMBERS, _MIN_MEMBER_BYTES = 256, 4_000  # of the archive for each further file
_BYTES_AT_ONCE = 4 << 20
_TAR_MAGIC = slice(257, 262)
MAX_SESSION = 1 << 30  # bytes: it is read as a whole
_SESSION = regex(rb"(?:<\?xml[^>]{0,200}>)?\s{0,10}<session version=\"\d+\" name=\"[^\"]{0,1000}\.nvvp\"")
_DATABASE = regex(rb"<pdm>(.*?)</pdm>", re.DOTALL)
_PIECE = regex(rb"<split>([^<]*)</split>")
_CONVERTIBLE = (".nsys-rep", ".qdrep")  # nsys writes the export of a report beside it, with the same name


@dataclass(slots=True)
class Contents:
    """The recordings found under one path; ``skipped`` names what is no file that can be read, with the reason."""

    sources: list[Source] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    folder: PrivateFolder | None = None  # where it was unpacked or put; removed with this object
    is_container: bool = False


def contents(path: Path, progress: Progress) -> Contents:
    """The sources under ``path``: the file itself, the files of a folder, or what a zip, tar or session holds."""
    if path.is_dir():
        return _without_exported(_folder(path))
    source = identify(path)
    if _is_zip(source):
        return _without_exported(_unpacked(path, _zip_members(path), progress))
    if _is_session(source):
        return _unpacked(path, _session_members(source), progress)
    if is_archive(source):
        return _without_exported(_unpacked(path, _tar_members(source), progress))
    source = replace(source, shown=address_of(path))
    return Contents([source], folder=PrivateFolder.around(path))


def is_archive(source: Source) -> bool:
    """Whether it is a zip, a tar, which may be packed itself, or a session of the Visual Profiler."""
    return _is_zip(source) or source.head[_TAR_MAGIC] == b"ustar" or _is_session(source)


def _is_zip(source: Source) -> bool:
    return source.head.startswith(ZIP)


def _is_session(source: Source) -> bool:
    return not source.compression and _SESSION.match(source.head) is not None


def _without_exported(found: Contents) -> Contents:
    """Leave out the reports whose SQLite export lies beside them: they are the same recording."""
    names = {source.name for source in found.sources}
    for source in list(found.sources):
        stem, dot, suffix = source.name.rpartition(".")
        if dot + suffix in _CONVERTIBLE and f"{stem}.sqlite" in names:
            found.sources.remove(source)
            found.skipped.append((source.name, "The export beside it was read instead."))
    return found


def _folder(path: Path) -> Contents:
    found = Contents(is_container=True)
    try:
        files = sorted(each for each in path.rglob("*") if not each.name.startswith(".") and each.is_file())
    except OSError as error:
        raise TraceError(path, f"This folder cannot be read ({error}).", "Check its permissions.") from error
    if not files:
        raise TraceError(
            path, "There is no file in this folder.", "Open the folder that holds the recordings."
        )
    if len(files) > MAX_MEMBERS:
        raise TraceError(
            path,
            f"This folder holds {len(files):,} files.",
            "Open the folder that holds only the recordings.",
        )
    for file in files:
        try:
            found.sources.append(identify(file, str(file.relative_to(path))))
        except TraceError as error:
            found.skipped.append((str(file.relative_to(path)), error.problem))
    return found


Member = tuple[str, IO[bytes] | str]  # its name, and its content or why it has none


def _zip_members(path: Path) -> Iterator[Member]:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, file


def _tar_members(source: Source) -> Iterator[Member]:
    import tarfile

    no_files = {
        tarfile.LNKTYPE: "it is a link to another member, which is not followed",
        tarfile.SYMTYPE: "it is a symbolic link, which is not followed",
        tarfile.FIFOTYPE: "it is a pipe",
        tarfile.CHRTYPE: "it is a device",
        tarfile.BLKTYPE: "it is a device",
    }
    with open_bytes(source) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        room = _room(source.path)
        for member in archive:
            room -= member.size
            if room < 0:
                raise _too_large(source.path)
            if member.isreg() and (file := archive.extractfile(member)) is not None:
                yield member.name, file
            elif not member.isdir():
                yield member.name, no_files.get(member.type, "it is no file")


def _session_members(source: Source) -> Iterator[Member]:
    """The database that the Visual Profiler puts into the session that it saves: packed, and written as text."""
    if source.path.stat().st_size > MAX_SESSION:
        raise _too_large(source.path)
    held = [_PIECE.findall(packed[1]) for packed in _DATABASE.finditer(source.path.read_bytes())]
    if not any(held):
        raise Malformed(
            source.path,
            "This session of the Visual Profiler holds no database: old versions kept a form of their own.",
            "Export the database it was made from, or record again: nvprof -o run.nvprof",
        )
    for texts in held:
        pieces = map(base64.b64decode, texts)
        with gzip.GzipFile(fileobj=io.BytesIO(b"".join(pieces))) as file:
            yield source.name, cast(IO[bytes], file)


def _unpacked(path: Path, members: Iterator[Member], progress: Progress) -> Contents:
    """Copies members to numbered files, so that no name in an archive is ever used as a path."""
    found = Contents(is_container=True, folder=PrivateFolder())
    assert found.folder is not None
    folder = found.folder.path
    budget = _room(path)
    limit = UnpackingLimit(Source(path, b""))
    try:
        for number, (name, file) in enumerate(members):
            if number >= MAX_MEMBERS:
                found.skipped.append((name, f"the archive holds more than {MAX_MEMBERS:,} files"))
                break
            if isinstance(file, str):
                found.skipped.append((name, file))
                continue
            if reason := _reason_to_leave_out(name):
                found.skipped.append((name, reason))
                continue
            limit.make("files", 1, _FREE_MEMBERS, _MIN_MEMBER_BYTES, MAX_MEMBERS)
            copy = folder / f"{number}"
            budget -= _copied(path, name, file, copy, budget, progress)
            try:
                found.sources.append(identify(copy, name))
            except TraceError as error:
                found.skipped.append((name, error.problem))
    except _archive_errors() as error:
        if not found.sources:
            raise Malformed(path, f"The archive is damaged ({error}).", "Copy it again.") from error
        found.skipped.append((path.name, f"the archive is damaged ({error})"))
    found.sources.sort(key=lambda source: source.name)
    if not found.sources:
        raise Malformed(path, "There is no recording in this archive.", "Open the recordings themselves.")
    return found


def _archive_errors() -> tuple[type[Exception], ...]:
    """What the readers of archives raise where one is damaged."""
    import tarfile
    import zipfile

    of_formats = zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError
    return *of_formats, NotImplementedError, RuntimeError, *READ_ERRORS


def _reason_to_leave_out(name: str) -> str:
    """Why a member is no recording by its name; empty for what may be one, wherever it says that it lies."""
    if "__MACOSX" in Path(name).parts:
        return "macOS keeps notes about a file in it"
    return "it is hidden" if Path(name).name.startswith(".") else ""


def _copied(path: Path, name: str, file: IO[bytes], copy: Path, budget: int, progress: Progress) -> int:
    total = 0
    with copy.open("wb", buffering=0) as target:
        while block := file.read(_BYTES_AT_ONCE):
            progress.step(0.0, f"unpacking {name}")
            total += len(block)
            if total > budget:
                raise _too_large(path)
            try:
                target.write(block)
            except OSError as error:
                raise refused_by_system(error, path) from error
    return total


def _room(path: Path) -> int:
    """Bytes that the members of an archive may have together."""
    return min(MAX_UNPACKED, max(path.stat().st_size * MAX_GROWTH, _FREE_GROWTH))


def _too_large(path: Path) -> Malformed:
    return Malformed(
        path,
        f"This archive unpacks to more than {MAX_GROWTH} times its size.",
        "Unpack it yourself if you trust it, and open the recordings.",
    )


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Arguments from an unpacked file, which stays as long as this object."""

    source: ArgumentSource
    folder: PrivateFolder

    def arguments(self, source_row: int) -> Mapping[str, Any]:
        return self.source.arguments(source_row)


def holding(trace: Trace, folder: PrivateFolder | None) -> Trace:
    """The trace, keeping the folder of its unpacked files while it lives."""
    if folder is None:
        return trace
    return replace(trace, sources=tuple(each and Unpacked(each, folder) for each in trace.sources))
