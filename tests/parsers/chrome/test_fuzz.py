"""Whatever is in a file: a trace whose account adds up, or one sentence."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from parsers.model import Trace, TraceError
from tests.examples import any_text, examples
from tests.parsers.chrome.traces import balanced, complete, kernel, launch, opened, packed, text_of

SCALARS: Any = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), any_text(8),
    st.sampled_from(["1.5", "0x7", "nan", "-1"])
)  # fmt: skip
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(any_text(4), SCALARS, max_size=3))
CATEGORIES = st.sampled_from(
    ["cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "user_annotation", "cuda_sync", "Trace", "x"]
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ["correlation", "device", "stream", "grid", "block", "bytes", "Input Dims", "Input type", "Collective name",
         "In msg nelems", "dtype", "Sequence number", "name", "cuda_sync_kind", "Total Allocated", "Device Id"]
    ), VALUES, max_size=6,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.one_of(st.sampled_from(list("XXXXXBEiCMsfbneNP")), SCALARS),
        "cat": st.one_of(CATEGORIES, SCALARS),
        "name": st.one_of(
            st.sampled_from(["[memory]", "ProfilerStep#1", "process_name", "nccl:all_reduce"]), SCALARS
        ),
        "pid": SCALARS,
        "tid": SCALARS,
        "ts": st.one_of(st.integers(0, 10**6), st.floats(0, 1e6), VALUES),
        "dur": st.one_of(st.integers(0, 1000), st.floats(0, 1e3), VALUES),
        "args": st.one_of(ARGUMENTS, VALUES),
        "id": VALUES,
    },
)
KEYS = st.dictionaries(
    st.sampled_from(["schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo", "with_stack",
         "metadata"]
    ),
    VALUES, max_size=4,
)  # fmt: skip
BUDGET = examples(150, suppress_health_check=list(HealthCheck))

SOUND = text_of(
    [
        each
        for number in range(12)
        for each in (
            complete(
                f"op{number}", number * 100, 50, args={"Input Dims": [[1, 2]], "Sequence number": number}
            ),
            launch(number * 100 + 5, number + 1),
            kernel("gemm", number * 100 + 20, 30, number + 1, grid=[1, 2, 3]),
        )
    ],
    schemaVersion=1,
).encode()


def opened_or_refused(content: bytes) -> Trace | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            trace = opened(Path(folder), content)
        except TraceError:
            return None
        assert balanced(trace)
        for event in range(min(len(trace.events), 5)):
            trace.arguments(event)
        return trace


@BUDGET
@given(st.lists(EVENTS, max_size=12), KEYS)
def test_events_of_any_shape_are_kept_or_counted(events: list[dict[str, Any]], keys: dict[str, Any]) -> None:
    opened_or_refused(json.dumps({**keys, "traceEvents": events}).encode("utf-8", "surrogatepass"))


@BUDGET
@given(st.data())
def test_damage_anywhere_is_survived(data: st.DataObject) -> None:
    content = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 40))
        content[at : at + length] = data.draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from([b'"', b"\\", b"}", b"{", b"]", b"},{", b"\0", b"NaN", b"\n"]),
            )
        )
    opened_or_refused(bytes(content))


@BUDGET
@given(st.integers(0, 400), st.binary(max_size=8))
def test_damage_of_packed_data_is_survived(at: int, garbage: bytes) -> None:
    content = bytearray(packed(SOUND.decode()))
    content[at : at + len(garbage)] = garbage
    opened_or_refused(bytes(content))


@BUDGET
@given(st.binary(max_size=60))
def test_bytes_that_are_no_recording_are_refused_or_read(content: bytes) -> None:
    opened_or_refused(b"[" + content)
