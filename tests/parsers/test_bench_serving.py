"""What the load tests of vLLM and SGLang save: their rates and latencies as a table for each test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from parsers.model import Malformed, ResultTable, UnknownFormat

TEST: dict[str, Any] = {
    "backend": "vllm",
    "request_rate": float("inf"),
    "max_concurrency": 16,
    "duration": 64.5,
    "completed": 1000,
    "request_throughput": 15.5,
    "output_throughput": 1985.25,
    "mean_ttft_ms": 166.5,
    "median_ttft_ms": 158.5,
    "p99_ttft_ms": 585.0,
    "std_tpot_ms": float("nan"),
    "mean_tpot_ms": 6.75,
}


def tables_of(folder: Path, text: str) -> tuple[ResultTable, ...]:
    (folder / "result").write_text(text)
    return open_trace([folder / "result"]).tables


@pytest.mark.parametrize("indent", [None, 2])
def test_rates_and_latencies_are_rows_of_one_table(indent: int | None, tmp_path: Path) -> None:
    (table,) = tables_of(tmp_path, json.dumps(TEST, indent=indent))
    assert table.title == "Load test of vllm, at most 16 requests at once"
    assert [column.name for column in table.columns[:5]] == ["metric", "unit", "avg", "p50", "p90"]
    rows = {str(row[0]): row[1:] for row in table.rows}
    assert rows["request_throughput"][:2] == ("requests/s", 15.5)
    assert rows["ttft"] == ("ms", 166.5, 158.5, None, None, 585.0, None, None, None)
    assert rows["tpot"] == ("ms", 6.75, None, None, None, None, None, None, None)
    assert "max_concurrency" not in rows


def test_each_line_is_a_test_of_its_own(tmp_path: Path) -> None:
    other = {key: value for key, value in TEST.items() if key not in ("backend", "max_concurrency")}
    tables = tables_of(tmp_path, f"{json.dumps(TEST)}\nno test\n{json.dumps(other)}\n[]\n")
    assert [table.title for table in tables] == [
        "Load test of vllm, at most 16 requests at once",
        "Load test",
    ]


@pytest.mark.parametrize(
    "text", ['{"completed": 0, "request_throughput": 1e999}', '{"completed": 1, "request_throughput": 2.']
)
def test_results_without_a_figure_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="no metrics"):
        tables_of(tmp_path, text.replace('"completed": 0, ', '"completed": null, '))


@pytest.mark.parametrize("missing", ["completed", "_throughput"])
def test_without_what_all_of_them_state_it_is_another_file(missing: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        tables_of(tmp_path, json.dumps({key: value for key, value in TEST.items() if missing not in key}))
