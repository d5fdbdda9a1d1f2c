"""Small results that are kept beside the cache of traces: one file each, whole or not there at all."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from parsers.stored import cache

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entries:
    """Those of one sort, which take ``most_bytes`` together; what is read back is for its reader to check."""

    name: str
    most_bytes: int

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        return cache.folder().with_name(self.name)

    def read(self, key: str) -> bytes | None:
        """What is kept under that name; None where there is nothing."""
        entry = self.folder / key
        try:
            content = entry.read_bytes()
            os.utime(entry)
        except FileNotFoundError:
            return None
        except OSError:
            _LOG.info("what was kept could not be read", exc_info=True)
            return None
        return content

    def write(self, key: str, content: bytes) -> None:
        """Keep something under that name, for its owner alone; where there is no room it is not kept."""
        try:
            with cache.written_whole(self.folder / key) as file:
                file.write(content)
        except OSError:
            _LOG.info("a result could not be kept", exc_info=True)

    def trim(self) -> None:
        """Remove those used longest ago until the rest fits."""
        cache.trim(self.most_bytes, self.folder)
