"""What packed files begin with, and how much is usually in them; imports nothing, so a window may ask at its start."""

from __future__ import annotations

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZIP = b"PK\x03\x04"
PACKED = (GZIP, ZSTD, ZIP)
DATABASE = b"SQLite format 3\0"
PACKED_SUFFIXES = (".gz", ".zst", ".zip", ".tar", ".tgz")
USUAL_GROWTH = 12  # of traces: text that repeats itself
NSYS_AS_JSON = rb'\{"Type":\d+,"\w+Event":\{'  # an expression; each line an event, and numbers for names
