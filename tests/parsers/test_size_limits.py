"""What is larger than a format ever is, or than memory, is refused in a sentence; the numbers are stated here."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.files import unpacking_limit
from parsers.files.base import Source
from parsers.files.unpacking_limit import LimitedStream
from parsers.model import Progress, TraceError

MB = 1 << 20


@pytest.mark.parametrize(
    ("file", "most_mb"),
    [
        ("stacks/loop.perf_report.txt", 64),
        ("stacks/feed.prof", 64),
        ("results/trtexec_profile.json", 64),
        ("results/genai_perf.json", 64),
        ("results/requests.jsonl", 64),
        ("results/nccl_tests.txt", 64),
        ("stacks/feed.collapsed.txt", 128),
        ("proton/scopes.hatchet", 128),
        ("stacks/feed.speedscope.json", 256),
        ("server/trace.json", 512),
        ("operators/chakra.0.et", 1024),
    ],
)
def test_a_file_that_is_read_at_once_has_a_largest_size(
    file: str, most_mb: int, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = fixtures / file, LimitedStream.whole
    (usual,) = whole.__defaults__ or ()
    size = 0

    def claimed(stream: LimitedStream, hint: str, most: int = usual) -> bytes:
        if size > most:
            raise TraceError(path, f"It is larger than {most >> 20:,} MB, too large to read at once.", hint)
        return whole(stream, hint, most)

    monkeypatch.setattr(LimitedStream, "whole", claimed)
    size = most_mb * MB
    assert open_trace([path]).inputs
    size += 1
    with pytest.raises(TraceError, match=f"larger than {most_mb:,} MB"):
        open_trace([path])


@pytest.mark.parametrize(("size", "is_refused"), [(3 * MB, False), (3 * MB + 1, True)])
def test_a_stream_gives_no_more_than_it_is_asked_for(size: int, is_refused: bool, tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(bytes(size))
    with path.open("rb") as file:
        stream = LimitedStream(file, Source(path, b""), Progress(), "reading")
        if is_refused:
            with pytest.raises(TraceError, match="larger than 3 MB"):
                stream.whole("Record less.", 3 * MB)
        else:
            assert len(stream.whole("Record less.", 3 * MB)) == size


@pytest.mark.parametrize(
    ("file", "needed"),
    [
        ("rocm/rocprof_results.db.gz", 5 * 300),
        ("rocm/rocprofv3.db.gz", 6 * 300),
        ("rocm/rocprofv3.json", 10 * 350),
        ("rocm/kernel_trace.csv", 2 * 600),
        ("perfetto/gpu.pftrace", 4_653 * 20),
        ("proton/scopes.hatchet", 49 * 2_000),
        ("xprof/loader.xplane.pb.gz", 182_213 * 12),
        ("stacks/feed.speedscope.json", 293 * 200),
        ("stacks/feed.chrome.json", 656 * 250),
        ("stacks/feed.firefox.json", 234 * 40),
    ],
)
def test_what_needs_more_memory_than_nine_tenths_of_what_is_free_is_refused(
    file: str, needed: int, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, free = fixtures / file, needed * 10 // 9
    monkeypatch.setattr(unpacking_limit, "available_bytes", lambda: free + 1)
    assert open_trace([path]).inputs
    monkeypatch.setattr(unpacking_limit, "available_bytes", lambda: free - 1)
    with pytest.raises(TraceError, match="of memory"):
        open_trace([path])
