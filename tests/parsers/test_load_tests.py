"""What load tests state of the time of a request: until the first token, for the others, and in a server's stages."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import Malformed, ResultTable
from parsers.model.results import LoadTest, RequestPart
from parsers.model.units import NS_PER_MS, NS_PER_S
from viewer.cli import main

# What SGLang wrote before it stated a rate of requests.
OF_SGLANG: dict[str, Any] = {
    "backend": "sglang",
    "request_rate": 4.0,
    "max_concurrency": None,
    "total_input_tokens": 51_200,
    "total_output_tokens": 20_100,
    "mean_e2e_latency_ms": 1_500.0,
    "median_e2e_latency_ms": 1_200.0,
    "median_ttft_ms": 200.0,
    "median_itl_ms": 5.0,
    "output_throughput": 400.0,
    "duration": 50.0,
    "completed": 100,
}
OF_TENSORRT_LLM: dict[str, Any] = {
    "engine": {"model": "model", "backend": "Pytorch"},
    "world_info": {"tp_size": 1},
    "request_info": {"num_requests": 64, "avg_num_concurrent_requests": 12.5, "avg_output_length": 128.0},
    "performance": {
        "avg_request_latency_ms": 640.0,
        "request_throughput_req_s": 20.0,
        "request_latency_percentiles_ms": {"p50": 650.0, "p99": 700.0, "minimum": 500.0, "average": 640.0},
    },
}
STREAMED = {"streaming_metrics": {"avg_ttft_ms": 40.0, "avg_tpot_ms": 4.75}}
PERF_ANALYZER = """Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,\
Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency
1,50,10,990,0,100,9000,900,0,11000
8,80,10,990,60000,100,9000,900,0,71000
"""


def table_of(folder: Path, text: str) -> ResultTable:
    (folder / "result").write_text(text.replace("\\\n", ""))
    (table,) = open_trace([folder / "result"]).tables
    return table


@pytest.mark.parametrize(
    ("completed", "said", "latencies"),
    [(0, ", 100 of 100 requests failed", False), (97, ", 3 of 100 requests failed", True), (100, "", True)],
)
def test_requests_that_failed_are_said(completed: int, said: str, latencies: bool, tmp_path: Path) -> None:
    """Of none that was answered the times are zeros, which are no times."""
    test = {
        **OF_SGLANG,
        "completed": completed,
        "failed": 100 - completed,
        "mean_ttft_ms": 0.0 if not completed else 9.0,
    }
    table = table_of(tmp_path, json.dumps(test))
    assert table.title.startswith(f"Load test of sglang{said}, 4 requests/s")
    assert ("ttft" in table.column("metric")) is latencies
    assert (table.load is not None) is latencies


@pytest.mark.parametrize(("itl", "streamed"), [(0.0, False), (0.01, True)])
def test_answers_that_came_at_once_have_no_first_token(itl: float, streamed: bool, tmp_path: Path) -> None:
    test = {**OF_SGLANG, "mean_ttft_ms": 1_190.0, "mean_itl_ms": itl}
    assert (table_of(tmp_path, json.dumps(test)).load is not None) is streamed


def test_percentiles_without_a_unit_have_that_of_their_mean(tmp_path: Path) -> None:
    streamed = {
        "streaming_metrics": {"avg_ttft_ms": 40.0, "ttft_percentiles": {"p50": 16.0, "average": 40.0}}
    }
    report = {**OF_TENSORRT_LLM, **streamed}
    report["request_info"] = {"num_requests": 64, "avg_num_concurrent_requests": 0.99}
    table = table_of(tmp_path, json.dumps(report))
    assert table.title == "Load test of TensorRT-LLM, one request at a time"
    assert dict(zip(table.column("metric"), table.column("unit"), strict=True))["ttft"] == "ms"
    assert table.load is not None
    assert table.load.half_first_ns == 16.0 * NS_PER_MS


BOX = (Path(__file__).parents[1] / "fixtures" / "results" / "printed_serving.txt").read_text()


def test_what_a_load_test_prints_is_what_it_saves(tmp_path: Path) -> None:
    """Also behind long output; of several, each is one."""
    (tmp_path / "bench.log").write_text("server: started\n" * 9000 + BOX)
    (table,) = open_trace([tmp_path / "bench.log"]).tables
    assert table.title == (
        "Load test of sglang, 4 requests/s, at most 16 requests at once, 512 tokens in and 201 out"
    )
    assert parts_of(table.load) == {RequestPart.FIRST_TOKEN: 250.0, RequestPart.TOKENS: 950.0}
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["ttft"][:2] == ("ms", 250.0)
    assert rows["output_throughput"][:2] == ("tokens/s", 400.0)
    two = BOX.replace(" 4.0\n", " inf\n") + BOX.replace(" 4.0\n", " 2.0\n").replace("250.00", "n/a")
    (tmp_path / "two.txt").write_text(two)
    first, second = open_trace([tmp_path / "two.txt"]).tables
    assert first.load is not None
    assert math.isinf(first.load.rate)
    assert "2 requests/s" in second.title
    assert second.load is None  # the median of one part and the mean of the other are no request


@pytest.mark.parametrize(("rate", "asked"), [("inf", math.inf), ("3.0", 3.0)])
def test_what_was_asked_for_may_stand_before_the_box(rate: str, asked: float, tmp_path: Path) -> None:
    bare = "".join(
        line for line in BOX.splitlines(keepends=True) if not line.startswith(("Traffic", "Max request"))
    )
    before = f"Traffic request rate: {rate}\nMaximum request concurrency: 8\n100%|####| 100/100\n"
    (tmp_path / "bench.log").write_text(before + bare + bare)
    first, second = (table.load for table in open_trace([tmp_path / "bench.log"]).tables)
    assert first is not None
    assert (first.rate, first.at_once) == (asked, 8.0)
    assert second is not None
    assert (second.rate, second.at_once) == (0.0, 0.0)


def test_a_box_without_figures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bench.log").write_text("=== Serving Benchmark Result ===\nBackend: vllm\n===\n")
    with pytest.raises(Malformed, match="no metrics"):
        open_trace([tmp_path / "bench.log"])


def parts_of(load: LoadTest | None) -> dict[RequestPart, float]:
    assert load is not None
    return {part: ns / NS_PER_MS for part, ns in load.parts}


def test_what_follows_the_first_token_is_the_rest_of_the_request(tmp_path: Path) -> None:
    table = table_of(tmp_path, json.dumps(OF_SGLANG))
    assert table.title == "Load test of sglang, 4 requests/s, 512 tokens in and 201 out"
    assert parts_of(table.load) == {RequestPart.FIRST_TOKEN: 200.0, RequestPart.TOKENS: 1_000.0}
    assert table.load is not None
    assert (table.load.rate, table.load.at_once, table.load.token_ns) == (4.0, 0.0, 5 * NS_PER_MS)


def test_a_median_is_not_taken_from_a_mean(tmp_path: Path) -> None:
    """What is left of a mean request after the median first token is the time of nothing."""
    stated = {key: value for key, value in OF_SGLANG.items() if "ttft" not in key} | {"median_ttft_ms": 150.0}
    of_halves = stated | {"median_e2e_latency_ms": 900.0}
    assert parts_of(table_of(tmp_path, json.dumps(of_halves)).load) == {
        RequestPart.FIRST_TOKEN: 150.0,
        RequestPart.TOKENS: 750.0,
    }
    only_means = {key: value for key, value in of_halves.items() if "ttft" in key or "median" not in key}
    assert table_of(tmp_path, json.dumps(only_means)).load is None


def test_how_late_the_last_answers_came_is_told_by_what_was_asked_for(tmp_path: Path) -> None:
    """100 requests at 4 a second are sent in 25 s."""
    load = table_of(tmp_path, json.dumps(OF_SGLANG | {"duration": 65.0})).load
    assert load is not None
    assert load.late_ns == 40 * NS_PER_S
    unlimited = table_of(tmp_path, json.dumps(OF_SGLANG | {"request_rate": math.inf})).load
    assert unlimited is not None
    assert unlimited.late_ns == 0


def test_without_the_time_of_a_request_its_tokens_tell_it(tmp_path: Path) -> None:
    stated = {key: value for key, value in OF_SGLANG.items() if "e2e" not in key}
    load = table_of(tmp_path, json.dumps(stated | {"max_concurrency": 1, "request_rate": math.inf})).load
    assert parts_of(load) == {RequestPart.FIRST_TOKEN: 200.0, RequestPart.TOKENS: 1_000.0}
    assert load is not None
    assert math.isinf(load.rate)


@pytest.mark.parametrize("missing", ["ttft", "token"])
def test_without_a_part_nothing_is_told_of_the_parts(missing: str, tmp_path: Path) -> None:
    stated = {key: value for key, value in OF_SGLANG.items() if "e2e" not in key and missing not in key}
    assert table_of(tmp_path, json.dumps(stated)).load is None


@pytest.mark.parametrize(
    ("at_once", "said"), [(1, "one request at a time"), (2, "at most 2 requests at once")]
)
def test_the_title_says_what_was_asked_for(at_once: int, said: str, tmp_path: Path) -> None:
    stated = OF_SGLANG | {"max_concurrency": at_once, "request_rate": 1, "total_input_tokens": None}
    assert table_of(tmp_path, json.dumps(stated)).title == f"Load test of sglang, 1 request/s, {said}"


def test_a_report_of_tensorrt_llm_is_a_table(tmp_path: Path) -> None:
    table = table_of(tmp_path, json.dumps(OF_TENSORRT_LLM))
    assert table.title == "Load test of TensorRT-LLM, 12 requests at once on average"
    assert table.rows == (
        ("request_latency", "ms", 640.0, 650.0, None, None, 700.0, 500.0, None, None),
        ("request_throughput", "requests/s", 20.0, None, None, None, None, None, None, None),
    )
    assert table.load is None
    load = table_of(tmp_path, json.dumps(OF_TENSORRT_LLM | STREAMED, indent=4)).load
    assert parts_of(load) == {RequestPart.FIRST_TOKEN: 40.0, RequestPart.TOKENS: 600.0}


def test_a_report_of_tensorrt_llm_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="no metrics"):
        table_of(tmp_path, json.dumps(OF_TENSORRT_LLM | {"performance": {"avg_request_latency_ms": None}}))


@pytest.mark.parametrize("unit", ["ms", "s"])
def test_genai_perf_states_milliseconds(unit: str, tmp_path: Path) -> None:
    names = {"time_to_first_token": 40.0, "request_latency": 640.0, "inter_token_latency": 4.75}
    load = table_of(
        tmp_path, json.dumps({name: {"unit": unit, "avg": ms} for name, ms in names.items()})
    ).load
    assert (load is not None) is (unit == "ms")
    if load is not None:
        assert parts_of(load) == {RequestPart.FIRST_TOKEN: 40.0, RequestPart.TOKENS: 600.0}


def test_perf_analyzer_tells_the_stages_under_the_most_load(tmp_path: Path) -> None:
    load = table_of(tmp_path, PERF_ANALYZER).load
    assert parts_of(load) == {RequestPart.QUEUE: 60.0, RequestPart.COMPUTE: 10.0, RequestPart.OUTSIDE: 1.0}
    assert load is not None
    assert load.at_once == 8.0


def test_one_row_is_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, _, last = PERF_ANALYZER.replace("\\\n", "").partition("1,50")
    (tmp_path / "one.csv").write_text(header + "1,50" + last.partition("\n")[0] + "\n")
    assert main(["diagnose", str(tmp_path / "one.csv")]) == 0
    assert "\n1 row, all kept\n" in capsys.readouterr().out


PRINTED_BY_TENSORRT_LLM = """[07/11/2025-07:18:23] [TRT-LLM] [I] Benchmark complete.
===========================================================
= REQUEST DETAILS
===========================================================
Number of requests:             15000
Number of concurrent requests:  126.7713
===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     89.5017
Total Output Throughput (tokens/sec):             22912.4242
Average request latency (ms):                     640.0000
Per User Output Throughput [w/ ctx] (tps/user):   180.7722

-- Request Latency Breakdown (ms) -----------------------

[Latency] P50    : 650.0000
[Latency] MINIMUM: 500.0000
===========================================================
"""
STREAMED_TIMES = (
    "Average time-to-first-token [TTFT] (ms):    40.0\nAverage time-per-output-token [TPOT] (ms): 2.5\n"
)


@pytest.mark.parametrize("streams", [True, False])
def test_what_trtllm_bench_prints_is_told_as_its_report(streams: bool, tmp_path: Path) -> None:
    """Bars of loading weights before it are none of its iterations."""
    bar = "".join(f"Loading weights: {step}%|# | {step}/617 [00:00<00:01, 500.0it/s]\r" for step in range(20))
    last = "Per User Output"
    text = (
        PRINTED_BY_TENSORRT_LLM.replace(last, STREAMED_TIMES + last) if streams else PRINTED_BY_TENSORRT_LLM
    )
    table = table_of(tmp_path, bar + text)
    assert table.title == "Load test of TensorRT-LLM, 22,912 tokens a second, 127 requests at once on average"
    assert table.rows[0] == ("request_latency", "ms", None, 650.0, None, None, None, 500.0, None, None)
    if streams:
        assert parts_of(table.load) == {RequestPart.FIRST_TOKEN: 40.0, RequestPart.TOKENS: 600.0}
    else:
        assert table.load is None


def test_each_run_of_trtllm_bench_is_a_table_with_what_was_said_before_it(tmp_path: Path) -> None:
    older = "= PERFORMANCE OVERVIEW\n=====\nNumber of requests:\t2000\nToken Throughput (tokens/sec):\t14769.9\n\n=="
    (tmp_path / "two.txt").write_text(PRINTED_BY_TENSORRT_LLM + older)
    assert [table.title for table in open_trace([tmp_path / "two.txt"]).tables] == [
        "Load test of TensorRT-LLM, 22,912 tokens a second, 127 requests at once on average",
        "Load test of TensorRT-LLM, 14,770 tokens a second",
    ]
