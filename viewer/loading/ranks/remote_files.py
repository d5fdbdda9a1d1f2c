"""Recordings that lie elsewhere: addresses that fsspec opens, such as s3://, gs://, hdfs:// and ssh://."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from parsers.files.private_folder import PrivateFolder
from parsers.model import Malformed
from viewer.loading.ranks.summaries import Wanted
from viewer.remote.addresses import library, unreachable

_COPY_BYTES = 4 << 20


def listed(address: str) -> tuple[Wanted, ...]:
    """The files under an address, in order of their names; raises ``TraceError``."""
    url_to_fs = library(address).core.url_to_fs
    try:
        system, root = url_to_fs(address)
        files = [root] if system.isfile(root) else sorted(system.find(root))
        found = [
            Wanted((system.unstrip_protocol(file),), str(file).removeprefix(f"{root}/"), remote=True)
            for file in files
            if not PurePosixPath(file).name.startswith(".")
        ]
    except Exception as error:  # whatever the library of that file system raises
        raise unreachable(address, error) from error
    if not found:
        raise Malformed(address, "There is no file under this address.", "Check the address.")
    return tuple(found)


@contextmanager
def fetched(wanted: Wanted) -> Iterator[Wanted]:
    """The same recording as files of this machine, which are gone afterwards."""
    folder = PrivateFolder()
    files = []
    for number, address in enumerate(wanted.files):
        target = folder.path / f"{number}"
        try:
            with library(address).open(address, "rb") as source, target.open("xb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)
        except Exception as error:  # whatever the library of that file system raises
            raise unreachable(address, error) from error
        files.append(str(target))
    yield Wanted(tuple(files), wanted.shown, wanted.thresholds)
