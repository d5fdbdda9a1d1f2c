"""What a log of vLLM says of its start: its parts, the requests that fit, and why it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, UnknownFormat

BEFORE = "\x1b[1;36m(EngineCore_DP0 pid=17)\x1b[0;0m INFO 09-29 00:29:14 "
START = f"""{BEFORE}[weight_utils.py:413] Time spent downloading weights for a/b: 60.5 seconds
{BEFORE}[default_loader.py:268] Loading weights took 20.00 seconds
{BEFORE}[default_loader.py:268] Loading weights took 19.00 seconds
{BEFORE}[gpu_model_runner.py:2392] Model loading took 5.79 GiB memory and 84.5 seconds
{BEFORE}[monitor.py:34] torch.compile takes 9.00 s in total
{BEFORE}[kv_cache_utils.py:864] GPU KV cache size: 445,968 tokens
{BEFORE}[kv_cache_utils.py:868] Maximum concurrency for 4,096 tokens per request: 108.88x
{BEFORE}[gpu_model_runner.py:3118] Graph capturing finished in 5 secs, took 0.14 GiB
{BEFORE}[core.py:218] init engine (profile, create kv cache, warmup model) took 15.50 seconds
"""
FAILURE = """(EngineCore pid=25) ERROR 08-18 02:57:12 [core.py:1231] {what}
(EngineCore pid=25) ERROR 08-18 02:57:12 [core.py:1231] Traceback (most recent call last):
(EngineCore pid=25) ERROR 08-18 02:57:12 [core.py:1231]     raise ValueError(
(EngineCore pid=25) ERROR 08-18 02:57:12 [core.py:1231] ValueError: No available memory for the cache blocks.{more}
(APIServer pid=1) RuntimeError: Engine core initialization failed.
"""
STATISTICS = (
    "INFO 09-29 00:31:14 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: "
    "50.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
)


def tables_of(folder: Path, text: str) -> tuple[ResultTable, ...]:
    (folder / "vllm.log").write_text(text)
    return open_trace([folder / "vllm.log"]).tables


def test_a_start_is_divided_into_its_parts(tmp_path: Path) -> None:
    """Of two ranks that read weights, the slower one counts."""
    (table,) = tables_of(tmp_path, START)
    assert table.title == (
        "Start of vLLM: 100 s, 60 % of it downloading weights; its KV cache holds 445,968 tokens, "
        "or 108.88 requests of 4,096"
    )
    assert dict(zip(table.column("part"), table.column("time"), strict=True)) == {
        "downloading weights": 60.5,
        "reading weights": 20.0,
        "compiling (torch.compile)": 9.0,
        "capturing CUDA graphs": 5.0,
        "the rest of loading the model": 4.0,
        "profiling memory, warming up and the rest": 1.5,
    }
    assert sum(float(share or 0) for share in table.column("share")) == pytest.approx(100.0)


def test_what_an_engine_started_anew_says_later_is_not_of_its_first_start(tmp_path: Path) -> None:
    again = START.replace("downloading weights for a/b: 60.5", "downloading weights for a/b: 600.5")
    assert tables_of(tmp_path, START + again)[0].title.startswith("Start of vLLM: 100 s, 60 %")


def test_what_it_served_is_told_before_its_start(tmp_path: Path) -> None:
    titles = [table.title.split(":")[0] for table in tables_of(tmp_path, START + STATISTICS * 3)]
    assert titles == ["Log of vLLM", "Start of vLLM"]


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("EngineCore failed to start.", "vLLM did not start"),
        ("EngineCore encountered a fatal error.", "vLLM failed"),
        ("WorkerProc hit an exception.", "vLLM failed"),
    ],
)
def test_what_ended_the_engine_is_said_first(what: str, told: str, tmp_path: Path) -> None:
    failure = FAILURE.format(what=what, more="")
    tables = tables_of(tmp_path, START + STATISTICS * 3 + failure)
    assert tables[0].title == f"{told}: ValueError: No available memory for the cache blocks."
    assert len(tables) == 3


def test_a_long_error_is_shortened_in_the_title_alone(tmp_path: Path) -> None:
    more = " Try increasing `gpu_memory_utilization` when initializing the engine, which is" + " so" * 40
    (table,) = tables_of(tmp_path, FAILURE.format(what="EngineCore failed to start.", more=more))
    assert table.title.endswith(" so…")
    assert len(table.title) < 190
    assert table.rows[0][0] == f"ValueError: No available memory for the cache blocks.{more}"


@pytest.mark.parametrize("left", ["Model loading took", "init engine"])
def test_a_start_that_is_told_in_part_is_no_start(left: str, tmp_path: Path) -> None:
    text = "".join(line for line in START.splitlines(keepends=True) if left not in line)
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, text)


def test_an_engine_that_failed_for_no_known_reason_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        tables_of(
            tmp_path, FAILURE.split("Traceback", maxsplit=1)[0].format(what="EngineCore failed to start.")
        )
