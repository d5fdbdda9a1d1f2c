"""Samples in which threads wait, spin, or share a library's function are told as that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers import open_trace
from rules.analysis.names.operators import spins, waits_for_others
from tests.parsers.test_sampled_stacks import opened
from tests.rules.test_sampled_cpu import found

# The cases lie on either side of these.
MIN_SPINNING = 0.25
MIN_WAITING = 0.5

PYTHON = "/usr/lib/python3.12"
POOL = f"go ({PYTHON}/threading.py:10);_handle_tasks ({PYTHON}/multiprocessing/pool.py:5) 400\n"


@pytest.mark.parametrize(("waiting", "told"), [(50, True), (49, False)])
def test_an_own_function_that_waits_for_processes_is_no_work(
    waiting: int, told: bool, tmp_path: Path
) -> None:
    assert MIN_WAITING == 0.5
    stack = f"train (a.py:1);join ({PYTHON}/threading.py:1119) {waiting}\n"
    finding = found(opened(tmp_path, f"{stack}rank (b.py:2) 30\nload (c.py:3) {70 - waiting}\n{POOL}"))
    waits = f"The program waits for other threads or processes: {waiting} % of the time"
    assert (finding.title == waits) is told
    assert ("--subprocesses" in " ".join(finding.remedy.advice)) is told


@pytest.mark.parametrize(
    ("waiting", "said"), [(50, "of all threads cover 100 s"), (49, "show threads at work for")]
)
def test_threads_that_wait_are_not_said_to_be_at_work(waiting: int, said: str, tmp_path: Path) -> None:
    frames = [
        {"name": "train", "file": "a.py", "line": 1},
        {"name": "join", "file": f"{PYTHON}/threading.py", "line": 1119},
        {"name": "rank", "file": "b.py", "line": 2},
    ]
    profile = {"type": "sampled", "name": "MainThread", "unit": "seconds", "startValue": 0, "endValue": 100}
    profile |= {"samples": [[0, 1], [2]] * 50, "weights": [waiting / 50, (100 - waiting) / 50] * 50}
    content = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames},
        "profiles": [profile],
    }
    path = tmp_path / "cpu.speedscope.json"
    path.write_text(json.dumps(content))
    assert said in str(found(open_trace([path])).account)


def test_a_function_that_is_called_like_one_that_waits_is_work(tmp_path: Path) -> None:
    finding = found(opened(tmp_path, f"train (a.py:1);join ({PYTHON}/posixpath.py:71) 9\nrank (b.py:2) 1\n"))
    assert finding.title == "90 % of the CPU's time is in train (a.py:1)"


@pytest.mark.parametrize(("spinning", "told"), [(25, True), (24, False)])
def test_threads_that_spin_are_told(spinning: int, told: bool, tmp_path: Path) -> None:
    assert MIN_SPINNING == 0.25
    kernel = "__sched_yield;do_syscall_64;__x64_sys_sched_yield;__schedule"
    finding = found(opened(tmp_path, f"blas_thread;{kernel} {spinning}\nsolve {100 - spinning}\n"))
    assert (finding.title == "25 % of the CPU's time is threads that spin while they wait for work") is told
    assert ("OMP_NUM_THREADS" in " ".join(finding.remedy.advice)) is told


@pytest.mark.parametrize(("own", "told"), [(10, True), (20, False)])
def test_what_several_functions_call_is_named_where_it_takes_longer_than_each(
    own: int, told: bool, tmp_path: Path
) -> None:
    compiles = f"backend_compile ({PYTHON}/site-packages/jax/_src/compiler.py:9)"
    text = f"fit (a.py:1) {own}\nfit (a.py:1);{compiles} 20\nrun (b.py:2);{compiles} 20\n"
    title = found(opened(tmp_path, text)).title
    assert ("is in backend_compile, called from several places" in title) is told


@pytest.mark.parametrize(
    ("function", "file", "waits"),
    [
        ("join", f"{PYTHON}/threading.py", True),
        ("_recv", "C:\\Python\\Lib\\multiprocessing\\connection.py", True),
        ("join", "threads.py", False),
        ("start", f"{PYTHON}/threading.py", False),
        ("join", "", False),
    ],
)
def test_waiting_is_told_by_function_and_file(function: str, file: str, waits: bool) -> None:
    assert waits_for_others(function, file) is waits


def test_giving_the_core_away_is_told_by_its_whole_name() -> None:
    assert [spins(each) for each in ("sched_yield", "__x64_sys_sched_yield", "my_sched_yield_count")] == [
        True,
        True,
        False,
    ]


def test_a_stack_without_frames_costs_only_itself(tmp_path: Path) -> None:
    assert found(opened(tmp_path, "main (a.py:1);load (b.py:2) 50\n 2\n")).title.endswith("in load (b.py:2)")
