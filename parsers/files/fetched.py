"""Copies of recordings that lie at addresses, such as ``ssh://HOST/path``: where each is kept, and whose copy it is."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

import platformdirs

from parsers.files.user_folders import user_folder
from parsers.model import TraceError

MAX_BYTES = 20_000_000_000
_SAFE = "@.-_+ "


def is_address(name: str) -> bool:
    """Whether this is an address and no path; a file of this machine is none."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.isalnum() and scheme.lower() != "file"


def folder() -> Path:
    """Where copies live: below the scheme and the host the path they have there."""
    return user_folder(platformdirs.user_cache_path) / "fetched"


def local_copy(address: str) -> Path:
    """Where the copy of an address lies, or will; raises ``TraceError`` for one that leads nowhere."""
    scheme, _, rest = address.partition("://")
    host, _, path = rest.partition("/")
    parts = [part for part in PurePosixPath(f"/{path}").parts[1:] if part != "."]
    if not host or ".." in parts or "\0" in path:
        raise TraceError(
            address, "There is nothing at this address.", "Write it like ssh://HOST/path/to/recording."
        )
    return folder().joinpath(scheme.lower(), quote(host, _SAFE), *parts)


def address_of(path: Path) -> str:
    """The address whose copy lies at a path; empty for any other file."""
    root = os.path.abspath(folder())
    whole = os.path.abspath(path)
    if not whole.startswith(root + os.sep):
        return ""
    scheme, _, rest = whole[len(root) + 1 :].replace(os.sep, "/").partition("/")
    host, _, below = rest.partition("/")
    return f"{scheme}://{unquote(host)}/{below}" if host else ""


def trim(keep: Path, most_bytes: int = MAX_BYTES) -> None:
    """Remove the copies used longest ago until the rest fits; ``keep`` and what lies below it stays."""
    found = []
    for file in folder().rglob("*"):
        try:
            if file.is_file():
                found.append((file.stat(), file))
        except OSError:
            continue
    total = sum(state.st_size for state, _ in found)
    for state, file in sorted(found, key=lambda each: each[0].st_atime):
        if total <= most_bytes:
            return
        if file != keep and keep not in file.parents:
            file.unlink(missing_ok=True)
            total -= state.st_size
