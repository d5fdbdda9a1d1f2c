"""Recordings at addresses: what lies there, and copies of it here, which are as they are there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from parsers.files import fetched
from parsers.files.fetched import address_of, is_address, local_copy
from parsers.model import Cancelled, Progress, TraceError, refused_by_system
from parsers.model.late import dataclass

if TYPE_CHECKING:
    from viewer.remote.far import Far
    from viewer.remote.names import PlaceName

SSH = "ssh"
DEEPEST = 8  # folders below the one that is named
_COPY_BYTES = 4 << 20
_STAYS_FRESH_S = 10.0
_fresh: dict[Path, float] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at an address: its name below the one that was asked for, bytes, and seconds since 1970."""

    address: str
    name: str
    bytes: int
    modified: float
    is_folder: bool = False


class Store(Protocol):
    """One server, or one service, that holds files."""

    def entries(self, address: str, depth: int) -> list[Entry]:
        """What lies below an address, so many folders deep; of a file itself, under the empty name."""

    def bring(self, entry: Entry, target: Path, progress: Progress) -> None:
        """A verified copy at ``target``."""


@contextlib.contextmanager
def store_of(address: str) -> Iterator[Store]:
    """What is asked about an address while the block lasts; raises ``TraceError``."""
    scheme, _, rest = address.partition("://")
    if scheme.lower() != SSH:
        yield _Service()
        return
    from viewer.remote.far import Far  # late, like all of ssh: most recordings are here

    far = Far(ssh_place(rest.partition("/")[0]))
    far.open()
    try:
        yield _Machine(far)
    finally:
        far.close()


def ssh_place(host: str) -> PlaceName:
    """The place that a host stands for: with the line of the place that was given its name or goes there."""
    from viewer.remote.names import find_place, remembered

    known = remembered()
    for name, place in known.items():
        if host == name or place.text == f"ssh:{host}":
            return place
    return find_place(f"ssh:{host}")


def far_path(address: str) -> str:
    """The path that an address of another machine names; ``/~/`` leads to the home there."""
    path = address.partition("://")[2].partition("/")[2]
    if path == "~" or path.startswith("~/"):
        return f"./{path[2:]}"
    return f"/{path}"


class _Machine:
    """Another machine through ssh."""

    def __init__(self, far: Far) -> None:
        self.far = far

    def entries(self, address: str, depth: int) -> list[Entry]:
        root = far_path(address).rstrip("/") or "/"
        found = []
        for line in self.far.ask("list", root, str(depth)).splitlines():
            numbers, _, path = line.partition("|")
            words = numbers.split(" ", 2)
            name = path[len(root) :].strip("/")
            if len(words) != 3 or not words[0].isdigit() or not path.startswith(root) or _is_hidden(name):
                continue
            is_folder = "directory" in words[2].lower()
            if "regular" not in words[2].lower() and not is_folder:
                continue
            below = f"{address.rstrip('/')}/{name}" if name else address
            found.append(Entry(below, name, int(words[0]), float(words[1]), is_folder))
        return sorted(found, key=lambda entry: entry.name)

    def bring(self, entry: Entry, target: Path, progress: Progress) -> None:
        from viewer.remote.transfer import fetch

        fetch(self.far, far_path(entry.address), target, progress)


class _Service:
    """Whatever fsspec opens: s3://, gs://, hdfs:// and others."""

    def entries(self, address: str, depth: int) -> list[Entry]:
        fsspec = library(address)
        try:
            system, root = fsspec.core.url_to_fs(address)
            if system.isfile(root):
                return [_entry(system, system.info(root), root, address)]
            found = system.find(root, maxdepth=depth, withdirs=depth == 1, detail=True)
            listed = [_entry(system, info, root, address) for info in found.values()]
        except Exception as error:  # whatever the library of that file system raises
            raise unreachable(address, error) from error
        return sorted((each for each in listed if not _is_hidden(each.name)), key=lambda each: each.name)

    def bring(self, entry: Entry, target: Path, progress: Progress) -> None:
        part = target.with_name(f".{target.name}.{entry.bytes}.part")
        try:
            with library(entry.address).open(entry.address, "rb") as source, part.open("ab") as copy:
                if copy.tell() > entry.bytes:
                    copy.truncate(0)
                source.seek(copy.tell())
                while data := source.read(_COPY_BYTES):
                    copy.write(data)
                    progress.step(min(copy.tell() / max(entry.bytes, 1), 1.0), f"fetching {target.name}")
            if part.stat().st_size != entry.bytes:
                raise OSError("it is not as long as announced")
            part.replace(target)
        except TraceError:
            raise
        except Exception as error:  # whatever the library of that file system raises
            if isinstance(error, Cancelled):
                raise
            raise unreachable(entry.address, error) from error


def _entry(system: Any, info: dict[str, Any], root: str, address: str) -> Entry:
    path = str(info["name"])
    name = path.removeprefix(root.rstrip("/")).strip("/")
    when = info.get("mtime") or info.get("LastModified") or info.get("updated") or 0.0
    seconds = (
        when.timestamp()
        if hasattr(when, "timestamp")
        else float(when)
        if isinstance(when, int | float)
        else 0.0
    )
    below = f"{address.rstrip('/')}/{name}" if name else address
    return Entry(below, name, int(info.get("size") or 0), seconds, info.get("type") == "directory")


def library(address: str) -> Any:
    """fsspec; raises ``TraceError`` where it is not installed."""
    try:
        import fsspec
    except ImportError as error:
        raise TraceError(
            address,
            "Files elsewhere need fsspec, which is not installed.",
            "Install Stallscope with its extra: pip install 'stallscope[cluster]'.",
        ) from error
    return fsspec


def unreachable(address: str, error: Exception) -> TraceError:
    """What is said of whatever the library of a file system raised."""
    if isinstance(error, TraceError):
        return error
    if isinstance(error, ImportError):
        scheme = address.partition("://")[0]
        extra = "'stallscope[s3]'" if scheme == "s3" else f"what fsspec needs for {scheme}://"
        return TraceError(
            address,
            f"Reading {scheme}:// needs a library that is not installed.",
            f"Install it: pip install {extra}.",
        )
    return TraceError(address, f"It cannot be read ({error}).", "Check the address and your access to it.")


def path_of(name: str) -> Path:
    """The path that a word names: of an address that of its copy, which need not be here yet."""
    return local_copy(name) if is_address(name) else Path(name)


def bring_here(paths: Sequence[Path], progress: Progress | None = None) -> None:
    """Have the copies at these paths be as they are at their addresses; other paths are left alone.

    Raises ``TraceError`` and ``Cancelled``.
    """
    progress = progress or Progress()
    now = time.monotonic()
    wanted = [path for path in paths if address_of(path) and now - _fresh.get(path, -100.0) > _STAYS_FRESH_S]
    for number, path in enumerate(wanted):
        part = progress.part(number / len(wanted), (number + 1) / len(wanted))
        address = address_of(path)
        part.step(0.0, f"looking at {address}")
        with store_of(address) as store:
            files = [each for each in store.entries(address, DEEPEST) if not each.is_folder]
            if not files:
                raise TraceError(address, "There is no file under this address.", "Check the address.")
            _bring(store, files, path, part)
        _fresh[path] = time.monotonic()
        fetched.trim(path)


def _bring(store: Store, files: Sequence[Entry], root: Path, progress: Progress) -> None:
    total = sum(each.bytes for each in files) or 1
    done = 0
    try:
        if files[0].name and root.is_dir():
            _remove_others(root, {root / each.name for each in files})
        for each in files:
            target = root / each.name if each.name else root
            if not _is_fresh(target, each):
                target.parent.mkdir(parents=True, exist_ok=True)
                store.bring(each, target, progress.part(done / total, (done + each.bytes) / total))
                os.utime(target, (time.time(), each.modified))
            done += each.bytes
    except OSError as error:
        raise refused_by_system(error, root) from error


def _is_fresh(target: Path, entry: Entry) -> bool:
    try:
        state = target.stat()
    except OSError:
        return False
    return state.st_size == entry.bytes and int(state.st_mtime) == int(entry.modified)


def _remove_others(root: Path, kept: set[Path]) -> None:
    """What was removed there is no part of the run any more."""
    for file in root.rglob("*"):
        if file.is_file() and file not in kept and not file.name.endswith(".part"):
            file.unlink(missing_ok=True)


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return ".." in parts or any(part.startswith(".") for part in parts)
