"""Files that people open in the place of a recording: refused, with what to open instead."""

from __future__ import annotations

import re

from parsers.files.base import Parser, Source, parser
from parsers.files.signatures import GZIP, NSYS_AS_JSON, ZSTD
from parsers.model import Progress, Trace, UnknownFormat
from parsers.model.late import regex

_UNPACK = "Unpack it and open what is in it: gzip, zstd, zip and tar are unpacked here, others are not."
_AS_SQLITE = "If Nsight Systems wrote it, export its report as SQLite: nsys export --type sqlite REPORT"
_BEGINNINGS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (regex(pattern, re.DOTALL), problem, hint)
    for pattern, problem, hint in (
        (rb"BZh[1-9]1AY&SY", "This file is compressed with bzip2.", _UNPACK),
        (rb"\xfd7zXZ\0", "This file is compressed with xz.", _UNPACK),
        (rb"7z\xbc\xaf\x27\x1c", "This is a 7-Zip archive.", _UNPACK),
        (rb"Rar!\x1a\x07", "This is a RAR archive.", _UNPACK),
        (rb"\x04\x22\x4d\x18", "This file is compressed with LZ4.", _UNPACK),
        (re.escape(GZIP), "This file is compressed twice.", "Unpack it once and open what is in it."),
        (re.escape(ZSTD), "This file is compressed twice.", "Unpack it once and open what is in it."),
        (
            rb"\[\[1\d{15}(?:\d{3})?(?:\.\d+)?,\s*1\d{15}",
            "This is the memory timeline of torch.profiler: memory by the kind of tensor, but not what ran.",
            "Open the trace of that run (export_chrome_trace) or a memory snapshot (torch.cuda.memory._dump_snapshot).",
        ),
        (
            rb"(?:[^\n]{0,2000}\n){0,200}?={9} (?:COMPUTE-SANITIZER|CUDA-MEMCHECK)\s",
            "This is compute-sanitizer's output: errors in how a program uses memory and threads, but no times.",
            "Fix them first, then record the program without it: nsys profile or ncu.",
        ),
        (
            NSYS_AS_JSON,
            "These are events of Nsight Systems as JSON, in which numbers stand for all names.",
            "Export the report as SQLite, which holds them: nsys export --type sqlite REPORT",
        ),
        (rb"PAR1", "This is a table in Parquet form, not a recording that Stallscope knows.", _AS_SQLITE),
        (rb"ARROW1\0", "This is a table in Arrow form, not a recording that Stallscope knows.", _AS_SQLITE),
        (rb"\x89HDF\r\n\x1a\n", "This is an HDF5 file, not a recording that Stallscope knows.", _AS_SQLITE),
        (
            rb"(?:\xef\xbb\xbf)?\s*(?i:<!doctype html>)[^\0]{0,1000}?<title>memray - ",
            "This is a page of memray: which lines ask for the CPU's memory, but no times.",
            "Record the program's time instead: py-spy record --format speedscope.",
        ),
        (
            rb"(?:\xef\xbb\xbf)?\s*(?i:<!doctype html|<html[\s>])",
            "This is a web page, not a recording.",
            "A sign-in page, or the page of a viewer, was probably saved instead: download the recording itself.",
        ),
        (
            rb"version https://git-lfs\.github\.com/spec/",
            "This is a pointer of Git LFS: the recording itself was not downloaded.",
            "Run git lfs pull in its repository.",
        ),
        (
            rb"\xff\xfe\s*\0?[{\[]\0|\xfe\xff\0[{\[]",
            "This JSON is encoded as UTF-16, but JSON must be UTF-8.",
            "Save it as UTF-8, or let the profiler write the file itself instead of redirecting its output.",
        ),
    )
)  # fmt: skip


@parser
class OtherFiles(Parser):
    """Recognised by their first bytes, after every recording."""

    format = "no-recording"
    title = ""
    files = ""
    suffixes = ()
    priority = 99

    def recognises(self, source: Source) -> bool:
        return _about(source.head) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        problem, hint = _about(source.head) or ("This is not a recording.", "")
        raise UnknownFormat(source.path, problem, hint)


def _about(head: bytes) -> tuple[str, str] | None:
    """What is wrong with a file that begins like this, and what to do; None where nothing is known about it."""
    for pattern, problem, hint in _BEGINNINGS:
        if pattern.match(head):
            return problem, hint
    return None
