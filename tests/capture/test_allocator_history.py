"""Recording memory saves the allocator's snapshot beside the trace; the torch of this test only pretends."""

from __future__ import annotations

import gzip
import json
import sys
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from viewer.capture.torch_runner.stallscope_recorder.options import Options
from viewer.capture.torch_runner.stallscope_recorder.recorders import TorchRecorder


class PretendProfiler:
    """Writes one empty trace when it is stopped."""

    def __init__(self, on_trace_ready: Any, **_: Any) -> None:
        self._ready = on_trace_ready

    def start(self) -> None: ...

    def stop(self) -> None:
        self._ready(self)

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text(json.dumps({"traceEvents": []}))


def recorded(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gpu: bool = True,
    fails: bool = False,
    memory: bool = True,
) -> tuple[list[str], list[Any], list[dict[str, Any]]]:
    """Names of the files that were written, calls of the allocator's history, and what was said."""
    calls: list[Any] = []
    said: list[dict[str, Any]] = []

    def history(**options: Any) -> None:
        calls.append(options)
        if fails:
            raise TypeError("of another version")

    torch: Any = types.ModuleType("torch")
    snapshot = types.SimpleNamespace(
        _record_memory_history=history, _dump_snapshot=lambda path: Path(path).write_bytes(b"snapshot")
    )
    torch.cuda = types.SimpleNamespace(is_available=lambda: gpu, memory=snapshot)
    profiler: Any = types.ModuleType("torch.profiler")
    profiler.profile, profiler.record_function = PretendProfiler, nullcontext
    for name, module in (("torch", torch), ("torch.profiler", profiler)):
        monkeypatch.setitem(sys.modules, name, module)
    options = Options(str(folder), "run", memory=memory)
    recorder = TorchRecorder(options, 0, lambda phase, **more: said.append({"phase": phase, **more}))
    recorder.start(None)
    recorder.finish()
    return sorted(each.name for each in folder.iterdir()), calls, said


def test_a_snapshot_lies_beside_the_trace_and_the_history_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, calls, said = recorded(tmp_path, monkeypatch)
    assert written == ["run.rank0.memory.pickle.gz", "run.rank0.pt.trace.json.gz"]
    assert gzip.decompress((tmp_path / written[0]).read_bytes()) == b"snapshot"
    assert [each.get("enabled", "on") for each in calls] == ["on", None]
    assert [Path(each["path"]).name for each in said if each["phase"] == "written"] == written[::-1]


@pytest.mark.parametrize(
    ("how", "problems"), [({"gpu": False}, 0), ({"fails": True}, 1), ({"memory": False}, 0)]
)
def test_without_a_history_only_the_trace_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, bool], problems: int
) -> None:
    written, _, said = recorded(tmp_path, monkeypatch, **how)
    assert written == ["run.rank0.pt.trace.json.gz"]
    assert len([each for each in said if each["phase"] == "problem"]) == problems
