"""What DeepSpeed prints of its phases and PyTorch's compiler of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, UnknownFormat
from parsers.model.results import TimeOf

LOG = """[2026-01-05 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=1, skipped=0, lr=[0.001]
[2026-01-05 10:00:00,001] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | {}
[2026-01-05 10:00:01,001] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | {}
"""


def tables_of(folder: Path, text: str) -> tuple[ResultTable, ...]:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"]).tables


def test_the_flops_profiler_tells_the_phases_of_an_iteration(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "results" / "deepspeed_flops.txt"]).tables
    assert table.title == "Iteration of DeepSpeed, 3.07 TFLOPS a GPU"
    assert table.rows == (
        ("the optimizer step", 1.0, 40.0, 40.0),
        ("the backward pass", 1.0, 39.5, 39.5),
        ("the forward pass", 1.0, 20.5, 20.5),
    )


def test_a_breakdown_adds_up_its_parts_and_not_the_whole_again(tmp_path: Path) -> None:
    parts = (
        "fwd_microstep: 10.0 | bwd_microstep: 30.0 | bwd_inner_microstep: 25.0 | bwd_allreduce_microstep: 5.0"
    )
    whole = "fwd: 10.0 | bwd: 30.0 | bwd_inner: 25.0 | bwd_allreduce: 5.0 | step: 60.0"
    (table,) = tables_of(tmp_path, LOG.format(f"{parts} | step_microstep: 60.0", whole))
    assert dict(zip(table.column("Phase"), table.column("Time"), strict=True)) == {
        "the optimizer step": 60.0,
        "the backward pass": 25.0,
        "the forward pass": 10.0,
        "the reduction of gradients": 5.0,
    }
    assert table.column("Share")[0] == 60.0


def test_older_logs_name_the_phases_in_full(tmp_path: Path) -> None:
    text = LOG.format("forward: 10.0 | backward_inner: 20.0", "forward: 12.0 | backward_inner: 20.0")
    (table,) = tables_of(tmp_path, text)
    assert table.column("Times") == (2.0, 2.0)
    assert table.column("Time") == (40.0, 22.0)


@pytest.mark.parametrize(
    ("first", "others", "said", "steps"),
    [
        (20.1, 4, ": 10.0 ms a step (median of 5), without the first one, which takes 20.1 ms", 4),
        (19.9, 4, ": 10.0 ms a step (median of 5)", 5),  # not twice as long
        (20.1, 3, ": 10.0 ms a step (median of 4)", 4),  # too few to tell what is usual
    ],
)
def test_slow_steps_at_the_beginning_are_left_out(
    first: float, others: int, said: str, steps: int, tmp_path: Path
) -> None:
    took = [first, *[10.0] * others]
    text = "".join(f"[Rank 0] time (ms) | fwd: {ms / 4:.3f} | bwd_inner: {ms * 3 / 4:.3f}\n" for ms in took)
    (table,) = tables_of(tmp_path, text)
    assert table.title == f"Phases of DeepSpeed{said}"
    assert table.column("Times") == (float(steps),) * 2
    assert table.column("Share") == pytest.approx((75.0, 25.0))


def test_several_slow_steps_are_left_out_together(tmp_path: Path) -> None:
    took = [50.0, 30.0, *[10.0] * 5, 90.0]
    text = "".join(f"[Rank 0] time (ms) | fwd_microstep: {ms:.2f}\n" for ms in took)
    (table,) = tables_of(tmp_path, text)
    assert table.title == (
        "Phases of DeepSpeed: 10.0 ms a microstep (median of 8), without the first 2, which take up to 50.0 ms"
    )
    assert table.column("Time") == (140.0,)


FLOPS = """-------------------------- DeepSpeed Flops Profiler --------------------------
fwd latency:                                                  100 ms
{}fwd FLOPS per GPU = fwd flops per GPU / fwd latency:          4.27 TFLOPS
------------------------------ Detailed Profile per GPU ------------------------------
Net(
  9 M = 100% Params, 4 GMACs = 100% MACs, 100 ms = 100% latency, 4.27 TFLOPS
  (layers): ModuleList(
    (0-2): 3 x Block(
      3 M = 33% Params, 1 GMACs = 25% MACs, 30 ms = 30% latency, 1 TFLOPS
      (first): Linear(1 M = 9% Params, 1 GMACs = 9% MACs, 5 ms = 5% latency, 1 TFLOPS, in_features=2)
      (second): Linear(1 M = 9% Params, 1 GMACs = 9% MACs, 2500 us = 2.5% latency, 1 TFLOPS, in_features=2)
      (rare): Rare(1 M = 9% Params, 0 MACs = 0% MACs, 0 s = 0% latency, 0 FLOPS)
    )
  )
)
------------------------------------------------------------------------------
  (after): Linear(1 M = 9% Params, 1 GMACs = 9% MACs, 5 ms = 5% latency, 1 TFLOPS, in_features=2)
"""


def test_a_forward_pass_alone_is_divided_by_what_its_modules_take_themselves(tmp_path: Path) -> None:
    phases, modules = tables_of(tmp_path, FLOPS.format(""))
    assert phases.title == "Iteration of DeepSpeed, 4.27 TFLOPS a GPU"
    assert not phases.totals
    assert modules.rows == (
        ("Block", 3.0, 67.5, 67.5, 90.0),
        ("Linear", 6.0, 22.5, 22.5, 22.5),
        ("Net", 1.0, 10.0, 10.0, 100.0),
    )
    assert [(each.of, each.whole) for each in modules.totals] == [(TimeOf.PROGRAM, 100.0)]


def test_with_a_backward_pass_an_iteration_is_divided_by_its_phases(tmp_path: Path) -> None:
    (phases,) = tables_of(tmp_path, FLOPS.format("bwd latency:      200 ms\n"))
    assert phases.column("Share") == (pytest.approx(200 / 3), pytest.approx(100 / 3))
    assert [each.of for each in phases.totals] == [TimeOf.PROGRAM]


@pytest.mark.parametrize("text", ["DeepSpeed Flops Profiler is on\n", "time (ms) | load: 5.0 | save: 6.0\n"])
def test_other_lines_of_a_log_are_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, text)


def test_kernels_of_a_compiled_module_have_their_bandwidth(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "results" / "inductor_bandwidth.txt"]).tables
    assert table.rows[0] == ("triton_red_fused_norm_0", 0.25, 25.0, 0.3, 1200.0)
    assert len(table.rows) == 2
    assert [each.of for each in table.totals] == [TimeOf.GPU]
