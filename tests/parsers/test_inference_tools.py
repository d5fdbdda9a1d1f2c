"""What trtexec prints and llama-bench writes: the rate, and where an inference or a token takes its time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import Malformed, ResultTable

STAMP = "[11/02/2025-09:17:09] [I] "
SUMMARY = """
=== Performance summary ===
Throughput: 1135.5 qps
Latency: min = 0.858 ms, max = 1.4 ms, mean = 0.9 ms, median = 0.88 ms, percentile(90%) = 1 ms, percentile(99%) = 1.2 ms
Enqueue Time: min = 0.1 ms, max = 0.9 ms, mean = 0.4 ms, median = {enqueue} ms, percentile(99%) = 0.8 ms
H2D Latency: min = 0.05 ms, max = 0.1 ms, mean = 0.07 ms, median = 0.07 ms, percentile(99%) = 0.09 ms
GPU Compute Time: min = 0.7 ms, max = 1.1 ms, mean = 0.72 ms, median = 0.71 ms, percentile(99%) = 1 ms
Total Host Walltime: 3.00142 s
""".strip().splitlines()
OLDER = """
Host Latency
min: 0.6 ms (end to end 1.0 ms)
max: 0.8 ms (end to end 1.2 ms)
mean: 0.65 ms (end to end 1.0 ms)
median: 0.64 ms (end to end 1.0 ms)
percentile: 0.7 ms at 99% (end to end 1.0 ms at 99%)
throughput: 1900 qps
Enqueue Time
median: 0.2 ms
GPU Compute
min: 0.5 ms
median: 0.52 ms
""".strip().splitlines()
TEST: dict[str, Any] = {
    "build_commit": "247e5c6e",
    "gpu_info": "NVIDIA GeForce RTX 4090",
    "model_type": "llama 8B Q4_K - Medium",
    "model_size": 4_900_000_000,
    "n_gpu_layers": 99,
    "n_threads": 8,
    "n_prompt": 512,
    "n_gen": 0,
    "avg_ts": 9_000.0,
    "stddev_ts": 20.0,
}
GENERATES = TEST | {"n_prompt": 0, "n_gen": 128, "avg_ts": 120.0, "stddev_ts": 0.5}


def only_table(path: Path, text: str) -> ResultTable:
    path.write_text(text)
    (table,) = open_trace([path]).tables
    return table


@pytest.mark.parametrize(("enqueue", "limits"), [("0.71", True), ("0.70", False)])
def test_trtexec_says_where_an_inference_takes_its_time(enqueue: str, limits: bool, tmp_path: Path) -> None:
    """The CPU is the limit where launching takes as long as the GPU works."""
    text = "".join(f"{STAMP}{line}\n" for line in SUMMARY).replace("{enqueue}", enqueue)
    table = only_table(tmp_path / "trtexec.log", text)
    assert table.title == (
        "trtexec: 1,136 inferences a second, 880 us each (median), 710 us of it on the GPU, launching takes "
        f"{float(enqueue) * 1e3:.0f} us" + (", so the CPU is the limit (--useCudaGraph)" if limits else "")
    )
    assert table.rows[0] == ("Latency", 0.88, 0.9, 0.858, 1.4, 1.2)
    assert table.column("part") == ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time")


def test_older_versions_list_the_figures_of_a_part_below_it(tmp_path: Path) -> None:
    table = only_table(tmp_path / "trtexec.log", "".join(f"{STAMP}{line}\n" for line in OLDER))
    assert table.title == (
        "trtexec: 1,900 inferences a second, 640 us each (median), 520 us of it on the GPU, launching takes 200 us"
    )
    assert table.rows[0] == ("Latency", 0.64, 0.65, 0.6, 0.8, None)


@pytest.mark.parametrize("lines", [True, False])
def test_llama_bench_tells_prompts_from_generating(lines: bool, tmp_path: Path) -> None:
    slower = GENERATES | {"n_threads": 1, "avg_ts": 90.0}
    tests = [TEST, GENERATES, slower]
    text = "\n".join(map(json.dumps, tests)) if lines else json.dumps(tests, indent=2)
    table = only_table(tmp_path / "llama.json", text)
    assert table.title == (
        "llama-bench of llama 8B Q4_K - Medium: at most 120 tokens a second generated (tg128), "
        "9,000 tokens a second of a prompt (pp512)"
    )
    assert table.column("test") == ("pp512", "tg128", "tg128")
    assert table.rows[1][1:3] == (120.0, 0.5)


def test_several_models_and_mixed_tests_are_named_in_their_rows(tmp_path: Path) -> None:
    mixed = TEST | {
        "n_gen": 128,
        "n_depth": 4096,
        "model_type": "qwen3 4B Q8_0",
        "gpu_info": "",
        "cpu_info": "EPYC",
    }
    table = only_table(tmp_path / "llama.json", json.dumps([mixed, GENERATES]))
    assert table.title == "llama-bench: 120 tokens a second generated (tg128)"
    assert table.rows[0][0] == "pp512+tg128 @ d4096"
    assert table.rows[0][5] == "EPYC"


def test_a_test_without_a_rate_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="no rates"):
        only_table(tmp_path / "llama.json", json.dumps([TEST | {"avg_ts": None}]))
