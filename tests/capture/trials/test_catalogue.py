"""Every change of the catalogue can be made and taken back, and leaves a program as it was."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.capture.pretend import SCRIPTS
from viewer.capture.commands import RUNNER, save_runner
from viewer.capture.torch_runner.stallscope_recorder.trials.catalogue import Change, Changes, catalogue
from viewer.capture.torch_runner.stallscope_recorder.trials.changes.ceilings import MAX_ANSWERS
from viewer.capture.torch_runner.stallscope_recorder.trials.changes.constructed import DdpBucketSize
from viewer.capture.torch_runner.stallscope_recorder.trials.known_calls import READERS
from viewer.capture.torch_runner.stallscope_recorder.trials.observation import MAX_REPEATS, Observation
from viewer.capture.torch_runner.stallscope_recorder.trials.program import LARGE_COPY, Program

INVISIBLE = {"gc-freeze", "no-sync", "sdpa-backend", "expandable-segments", "omp-num-threads"}


@pytest.fixture(scope="session")
def told(torch_python: str) -> dict[str, dict[str, Any]]:
    return _told_by(torch_python, "trial_catalogue.py")


def _told_by(torch_python: str, script: str) -> dict[str, Any]:
    done = subprocess.run(
        [torch_python, str(SCRIPTS / script), str(RUNNER)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_change_changes_something_and_leaves_nothing_behind(told: dict[str, dict[str, Any]]) -> None:
    changes = {name: each for name, each in told.items() if "failure" in each}
    assert len(changes) >= 28
    assert {name: each["left"] for name, each in changes.items() if each["left"]} == {}
    assert {name: each["failure"] for name, each in changes.items() if each["failure"]} == {}
    still = {name for name, each in changes.items() if not each["differs"] and not name.startswith("nccl-")}
    assert still <= INVISIBLE | {"threads"}


def test_training_goes_on_with_every_change(told: dict[str, dict[str, Any]]) -> None:
    assert all(each.get("finite", True) for each in told.values())
    assert {each["batches"] for each in told.values() if "failure" in each} == {16}, "an epoch stays as long"


def test_a_loop_that_waits_for_a_value_and_one_over_a_stream_end(told: dict[str, dict[str, Any]]) -> None:
    assert told["answers"] == {"distinct": 1 + 1200 - MAX_ANSWERS, "last": 1200.0}
    assert told["stream"]["batches"] == MAX_REPEATS + 4, "then it gives what it has left"


def test_a_step_that_the_scaler_leaves_out_is_a_step_as_well(told: dict[str, dict[str, Any]]) -> None:
    assert told["overflow"] == {"before": 0, "after": 1}


@pytest.mark.parametrize(
    ("given", "larger"),
    [
        ({}, 100.0),
        ({"bucket_cap_mb": None}, 100.0),
        ({"bucket_cap_mb": 1}, 25.0),
        ({"bucket_cap_mb": 10}, 40.0),
    ],
)
def test_buckets_become_four_times_as_large_and_no_smaller_than_usual(
    given: dict[str, Any], larger: float
) -> None:
    buckets = DdpBucketSize()
    buckets.changed(given)
    assert given == {"bucket_cap_mb": larger}


def test_what_makes_no_sense_in_a_program_says_why(told: dict[str, dict[str, Any]]) -> None:
    against = {name: each["against"] for name, each in told.items() if each.get("against")}
    assert against["tf32"] == against["pin-memory"] == "the program runs on the CPU"
    assert against["no-sync"] == "no model is in DistributedDataParallel"
    assert against["inference-mode"] == "the program is training"
    assert against["sdpa-backend"] == "scaled_dot_product_attention is not called"
    assert (
        not {"autocast-bf16", "fused-optimizer", "channels-last", "set-to-none", "same-batch"}
        & against.keys()
    )


def test_a_change_below_others_is_taken_back_without_them(told: dict[str, dict[str, Any]]) -> None:
    assert told["reordered"]["made"] == ["inference-mode"]
    assert "forward" in told["reordered"]["left"]
    assert told["reordered"]["after"] == []


def test_the_catalogue_is_found_in_the_runner_that_is_one_file(tmp_path: Path, torch_python: str) -> None:
    runner = save_runner(tmp_path / "runner.pyz")
    code = (
        f"import sys; sys.path.insert(0, {str(runner)!r})\n"
        "from stallscope_recorder.trials.catalogue import catalogue\nprint(sorted(catalogue()))"
    )
    done = subprocess.run([torch_python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str(sorted(catalogue()))


class Thing:
    own = 1


class Breaking(Change):
    name = "breaking"

    def on(self, program: Program) -> None:
        self.put(Thing, "own", 2)
        self.undo_by(lambda: 1 / 0)
        self.put(Thing, "added", 3)
        raise RuntimeError("no\nsecond line")


def test_a_change_that_fails_halfway_is_put_back_even_where_putting_back_fails() -> None:
    changes = Changes(Program(), {"breaking": Breaking})
    assert changes.turn(("breaking",)) == "RuntimeError: no"
    assert Thing.own == 1
    assert not hasattr(Thing, "added")
    assert changes.made == ()
    assert changes.reason_against("other") == "this recorder doesn't know it"


def test_no_collection_of_garbage_happens_even_where_the_script_starts_one(only_new_garbage: None) -> None:
    changes, thing = Changes(Program()), Thing()
    thing.itself = thing  # type: ignore[attr-defined]
    left = weakref.ref(thing)
    assert changes.turn(("gc-freeze",)) == ""
    del thing
    try:
        assert (gc.isenabled(), gc.collect()) == (False, 0)
        assert left() is not None
    finally:
        changes.take_all_back()
        gc.freeze()  # else collections look through all tests from then on
    assert gc.isenabled()
    assert left() is None, "what was left over is collected in the end"


def test_a_graph_is_recorded_for_each_kind_of_call_and_answers_like_the_model(torch_python: str) -> None:
    told = _told_by(torch_python, "trial_graphs.py")
    assert told["right"] == [True, True], "an answer that was kept stays what it was"
    assert told["a plain answer is right"] == [True, True]
    assert told["graphs"] == [1 + 1, 2, 3, 4, 4], (
        "another argument, nothing new, a shape, a setting, and once more"
    )
    assert told["left"] == ["forward"], "while it is made, and not afterwards"
    assert told["shapes"] == [False] * 8 + [True] * 2
    assert told["told shapes"] == "the model is called with too many different shapes"
    assert told["on the CPU"] == "the model is given tensors that aren't on the GPU"
    assert told["trained"] == [1, 2, True]
    assert told["twice"] == "the model is called more than once before backward"
    assert told["after backward"] == ""
    assert told["hooks"] == "the model has hooks"
    assert told["casts"] is True


class GpuTensor:
    """As much of a tensor on a GPU as a copy to the host asks for."""

    is_cuda, layout, requires_grad, device = True, "strided", False, SimpleNamespace(type="cuda")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.shape: tuple[int, ...] = ()

    def to(self, *args: Any, **kwargs: Any) -> str:
        return f"to {args} {kwargs}"

    def cpu(self) -> str:
        return "pageable"


class PageLocked:
    def copy_(self, source: GpuTensor) -> str:
        return f"page-locked {source.nbytes}"


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Program:
    torch = SimpleNamespace(
        Tensor=GpuTensor,
        strided="strided",
        is_grad_enabled=lambda: True,
        empty_like=lambda source, device, pin_memory: PageLocked() if pin_memory else None,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    program = Program()
    monkeypatch.setattr(Program, "device", "cuda")
    return program


def test_large_copies_to_the_host_go_to_page_locked_memory(pretended_gpu: Program) -> None:
    changes = Changes(pretended_gpu)
    assert changes.reason_against("pinned-read-backs") == "the steps copy nothing large from the GPU"
    pretended_gpu.seen.add("large copy from the GPU")
    assert changes.reason_against("pinned-read-backs") is None
    assert changes.turn(("pinned-read-backs",)) == ""
    large, small = GpuTensor(LARGE_COPY), GpuTensor(LARGE_COPY - 1)
    assert (large.cpu(), large.to("cpu")) == (f"page-locked {LARGE_COPY}",) * 2
    assert (small.cpu(), small.to("cpu")) == ("pageable", "to ('cpu',) {}")
    assert large.to("cpu", dtype="float32") == "to ('cpu',) {'dtype': 'float32'}", "it converts as well"
    large.requires_grad = True
    assert large.cpu() == "pageable", "its copy belongs to the graph of gradients"
    changes.take_all_back()
    large.requires_grad = False
    assert large.cpu() == "pageable"


@pytest.mark.parametrize(("nbytes", "seen"), [(LARGE_COPY, True), (LARGE_COPY - 1, False)])
def test_a_large_copy_to_the_host_is_seen(pretended_gpu: Program, nbytes: int, seen: bool) -> None:
    Observation(pretended_gpu)._see_copy(GpuTensor(nbytes), ("cpu",))
    assert ("large copy from the GPU" in pretended_gpu.seen) is seen


@pytest.mark.parametrize(("part_of_graph", "reads"), [(False, 1), (True, 3)])
def test_values_that_gradients_flow_through_are_read_in_truth(
    pretended_gpu: Program, monkeypatch: pytest.MonkeyPatch, part_of_graph: bool, reads: int
) -> None:
    read: list[GpuTensor] = []
    for name in READERS:
        monkeypatch.setattr(GpuTensor, name, lambda tensor: read.append(tensor), raising=False)
    logits = GpuTensor(1 << 10)
    logits.shape = (4,)
    logits.requires_grad = part_of_graph
    changes = Changes(pretended_gpu)
    assert changes.turn(("no-read-backs",)) == ""
    for _ in range(3):
        logits.cpu()
    changes.take_all_back()
    assert len(read) == reads, "the graph of the step before is gone"
