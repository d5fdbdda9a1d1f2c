"""Three recordings that ``stallscope capture`` made of one training script on an H200 tell the same story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers import open_trace
from viewer.capture.kernel_names import function_name
from viewer.cli import main

FIXTURES = Path(__file__).parent.parent / "fixtures" / "capture"
TIMELINES = ("h200_train.pt.trace.json.gz", "h200_train.nsys.sqlite.gz")


@pytest.mark.parametrize("name", TIMELINES)
def test_each_timeline_has_the_three_recorded_steps_and_blames_the_loader(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "--json", str(FIXTURES / name)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [step["name"] for step in told["steps"] if step["steady"]] == [
        f"ProfilerStep#{n}" for n in FOUND[name]
    ]
    assert told["crashed"] == {}
    idle = told["devices"][0]["budget"]["idle_ns"]
    assert max(idle, key=lambda cause: idle[cause]) == "input-bound"
    assert {"input-bound", "memory-bound-kernels"} <= {
        finding["category"] for finding in told["findings"] if finding["severity"] in ("high", "medium")
    }


FOUND = {TIMELINES[0]: (4, 5, 6), TIMELINES[1]: (5, 6, 7)}


def test_both_timelines_ran_the_same_kernels() -> None:
    counts = []
    for name in TIMELINES:
        trace = open_trace([FIXTURES / name])
        counts.append(sum(1 for event in trace.events.name if "layer_norm_kernel" in trace.strings[event]))
    assert counts[0] == counts[1] > 0


def test_the_profiled_kernels_are_named_as_on_the_timeline() -> None:
    profiled = {
        function_name(kernel.name) for kernel in open_trace([FIXTURES / "h200_train.ncu.raw.csv.gz"]).kernels
    }
    timeline = {function_name(text) for text in open_trace([FIXTURES / TIMELINES[0]]).strings}
    assert len(profiled) > 3
    assert profiled <= timeline


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("void at::native::elementwise<4, at::native::add<float> >(int, float*)", "elementwise"),
        ("void (anonymous namespace)::softmax_warp<float, (int)4>(float*, int)", "softmax_warp"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(typename T::Params)", "Kernel2"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("reduce(float const*, float*)", "reduce"),
        ("", ""),
    ],
)  # fmt: skip
def test_function_names_are_what_ncu_compares(kernel: str, function: str) -> None:
    assert function_name(kernel) == function
