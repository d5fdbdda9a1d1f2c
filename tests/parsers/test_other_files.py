"""Files that are opened in the place of a recording are named, with what to open instead."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import UnknownFormat

EVENT = {"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
JSON = json.dumps({"traceEvents": [EVENT]})
PACKETS = b"".join(
    b"\x0a" + bytes((len(each),)) + each for each in (b"\x08\x01\x12\x00", b"\x50\x01", b"\x40\x07")
)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (bz2.compress(JSON.encode()), "bzip2"),
        (lzma.compress(JSON.encode()), "xz"),
        (gzip.compress(gzip.compress(JSON.encode())), "twice"),
        (b"[[1700000000000000, 1700000000000010], [[0, 512], [0, 1024]]]", "memory timeline"),
        (b"[[1700000000000000123, 1700000000000010123], [[0, 512], [0, 1024]]]", "memory timeline"),
        (b"[[17, 1700000000000010], [[0, 512], [0, 1024]]]", "that Stallscope knows"),
        (b"========= COMPUTE-SANITIZER\n========= Leaked 8 bytes\n", "compute-sanitizer"),
        (b"epoch 1\n\nepoch 2\n" * 60 + b"========= CUDA-MEMCHECK\n", "compute-sanitizer"),
        (b"epoch 1\n" * 201 + b"========= CUDA-MEMCHECK\n", "that Stallscope knows"),
        (b"COMPUTE-SANITIZER\n", "that Stallscope knows"),
        (b'{"Type":79,"CudaEvent":{"startNs":"35","endNs":"38"}}\n' * 2, "Nsight Systems as JSON"),
        (b'{"Type":79,"Other":{"startNs":"35","endNs":"38"}}\n' * 2, "no list of trace events"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"\x89HDF\r\n\x1a\n\0\0", "HDF5"),
        (b"\xef\xbb\xbf\n<!DOCTYPE html><html><body>Sign in</body></html>", "web page"),
        (b"<html lang=en>" + JSON.encode(), "web page"),
        (b"\n<!DOCTYPE html>\n<html>\n<title>memray - flamegraph report</title>", "memray"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS"),
        (JSON.encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + JSON.encode("utf-16-be"), "UTF-16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(UnknownFormat) as caught:
        open_trace([path])
    assert named in caught.value.problem
    assert caught.value.hint


@pytest.mark.parametrize(
    "content",
    [b"\n\n\n\n" + JSON.encode(), b"\x0a\x01x\x0a\x01y", b"\x0a\xff\xff\xff\xff\xff\xff", b"\n\nhello\n"],
)
def test_newlines_are_no_perfetto_trace(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    parser = parser_of(identify(path))
    assert parser is None or parser.format != "no-recording"


def test_such_a_file_beside_a_recording_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "host.trace.json").write_text(JSON)
    (tmp_path / "host.xplane.pb").write_bytes(b"\x0a\xff\x7f\x08\x01\x12\x09/host:CPU\0")
    trace = open_trace([tmp_path])
    assert len(trace.events) == 1
    (note,) = [each for each in trace.quality.notes if each.kind == "file-not-read"]
    assert "host.xplane.pb: This profile contains no events" in note.example
