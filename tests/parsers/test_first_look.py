"""What begins as PyTorch's profiler writes it is read by its parser, and the others are not even loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import resources
from parsers.files.base import Source, parser_of, parsers
from parsers.files.source import identify

# The cases lie on either side of these.
HEAD_BYTES = 64 * 1024

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = sorted(
    path
    for folder in (ROOT / "tests/fixtures", ROOT / "resources/samples")
    for path in folder.rglob("*.json*")
    if path.is_file()
)
LOADED = """
import sys
from pathlib import Path
from parsers import open_trace
open_trace([Path(sys.argv[1])])
print(*(name for name in sys.modules if name.startswith("parsers.formats.")))
"""


def source(text: str) -> Source:
    return Source(Path("recording"), text.encode()[:HEAD_BYTES])


def asked_in_turn(recording: Source) -> str | None:
    return next((each.format for each in parsers() if each.recognises(recording)), None)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.thorough)])
def test_no_recording_is_read_by_another_parser_than_if_all_were_asked(every: int) -> None:
    seen = [identify(path) for path in RECORDINGS[::every]]
    told = [found.format if (found := parser_of(each)) is not None else None for each in seen]
    assert told == [asked_in_turn(each) for each in seen]
    assert told.count("chrome") > 20


@pytest.mark.parametrize(
    "text",
    [
        '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}',
        '\n {\n  "schemaVersion":1,\n"deviceProperties" : [{"name": "Kernel Name"}],\n"traceEvents": []}',
    ],
)
def test_what_begins_so_is_a_trace_of_pytorch(text: str) -> None:
    found = parser_of(source(text))
    assert found is not None
    assert found.format == asked_in_turn(source(text)) == "chrome"


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (
            '{"schema": "1.1.1-chakra.0.0.4", "pid": 3, "time": "2024", "start_ts": 1, "nodes": []}',
            "execution-trace",
        ),
        ('{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}', "speedscope"),
        ('{"schemaVersion": 1, "traceEvents": []}', "chrome"),
    ],
)
def test_what_begins_otherwise_is_asked_of_all(text: str, format: str) -> None:
    found = parser_of(source(text))
    assert found is not None
    assert found.format == format


def test_for_a_trace_of_pytorch_no_other_parser_is_loaded() -> None:
    sample = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, str(sample)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["parsers.formats.chrome_trace"]
