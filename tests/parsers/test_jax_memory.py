"""What a memory profile of JAX tells: bytes of each device by the program's functions that asked for them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, TraceError, UnknownFormat
from tests.parsers.protobuf_messages import message, varint

STRINGS = (
    *("", "allocations", "count", "space", "bytes", "kind", "buffer", "device", "gpu:0", "executable"),
    *("dispatch", "/env/lib/python3.11/site-packages/jax/dispatch.py", "step", "/home/me/train.py", "load"),
)


def label(key: str, value: str) -> tuple[int, bytes]:
    return 3, message((1, STRINGS.index(key)), (2, STRINGS.index(value)))


def sample(places: tuple[int, ...], count: int, size: int, kind: str, device: str = "") -> tuple[int, bytes]:
    of_device = [label("device", device)] if device else []
    packed = b"".join(map(varint, places)), varint(count) + varint(size)
    return 2, message((1, packed[0]), (2, packed[1]), label("kind", kind), *of_device)


def place(number: int, line: int) -> tuple[int, bytes]:
    return 4, message((1, number), (4, message((1, number), (2, line))))


def function(number: int, name: str, file: str) -> tuple[int, bytes]:
    return 5, message((1, number), (2, STRINGS.index(name)), (4, STRINGS.index(file)))


def profile(*samples: tuple[int, bytes], strings: tuple[str, ...] = STRINGS) -> bytes:
    return message(
        (1, message((1, 1), (2, 2))),
        (1, message((1, 3), (2, 4))),
        *samples,
        *(place(number, line) for number, line in ((1, 70), (2, 12), (3, 30))),
        function(1, "dispatch", STRINGS[11]),
        function(2, "step", "/home/me/train.py"),
        function(3, "load", "/home/me/train.py"),
        *((6, text) for text in strings),
    )


SOUND = (
    sample((1, 2), 1, 700, "executable"),
    sample((1, 2), 3, 500, "buffer", "gpu:0"),
    sample((1, 2), 1, 100, "buffer", "gpu:0"),
    sample((3,), 2, 300, "buffer", "gpu:0"),
    sample((1,), 1, 100, "buffer", "gpu:0"),
)


def tables_of(folder: Path, content: bytes) -> tuple[ResultTable, ...]:
    (folder / "memory.prof").write_bytes(gzip.compress(content))
    return open_trace([folder / "memory.prof"]).tables


def test_bytes_belong_to_the_programs_own_functions(tmp_path: Path) -> None:
    buffers, programs = tables_of(tmp_path, profile(*SOUND))
    assert buffers.title == "Memory of JAX, 1.00 KB in buffers of gpu:0, 60 % of it from step"
    assert buffers.rows == (
        ("step (/home/me/train.py:12)", 4.0, 600.0, 60.0),
        ("load (/home/me/train.py:30)", 2.0, 300.0, 30.0),
        ("dispatch (/env/lib/python3.11/site-packages/jax/dispatch.py:70)", 1.0, 100.0, 10.0),
    )
    assert programs.title == "Memory of JAX, 700 B in compiled programs, 100 % of it from step"


def test_without_a_function_that_holds_half_of_it_none_is_named(tmp_path: Path) -> None:
    halves = (
        sample((2,), 1, 49, "buffer", "gpu:0"),
        *(sample((n,), 1, s, "buffer", "gpu:0") for n, s in ((3, 40), (1, 11))),
    )
    (table,) = tables_of(tmp_path, profile(*halves))
    assert table.title == "Memory of JAX, 100 B in buffers of gpu:0"


def test_what_counts_other_things_is_no_profile_of_memory(tmp_path: Path) -> None:
    other = tuple({"allocations": "samples", "space": "cpu"}.get(text, text) for text in STRINGS)
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, profile(*SOUND, strings=other))


def test_a_damaged_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as refused:
        tables_of(tmp_path, profile(*SOUND)[:-2])
    assert "save_device_memory_profile" in refused.value.hint
    with pytest.raises(TraceError):
        tables_of(
            tmp_path, profile(sample((9,), 1, 1, "buffer")) + message((2, message((3, message((1, 99))))))
        )
