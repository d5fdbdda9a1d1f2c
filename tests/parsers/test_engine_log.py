"""What vLLM and SGLang write into their logs while they serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import ResultTable, UnknownFormat

# The cases lie on either side of this.
MIN_LINES = 3
NOTEWORTHY_SILENCE = 0.1  # of the lines


def of_vllm(generated: float, running: int, waiting: int, cache: float) -> str:
    return (
        "INFO 01-01 00:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 25.5 tokens/s, Avg generation "
        f"throughput: {generated} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: "
        f"{cache}%, Prefix cache hit rate: 1.0%\n"
    )


def of_sglang(generated: float, running: int, waiting: int, part: float) -> str:
    return (
        f"[2025-01-01 00:00:00 TP0] Decode batch. #running-req: {running}, #token: 77, token usage: {part}, "
        f"cuda graph: True, gen throughput (token/s): {generated}, #queue-req: {waiting}, \n"
    )


def table_of(folder: Path, text: str) -> ResultTable:
    path = folder / "server.log"
    path.write_text("INFO: started\n" + text)
    (table,) = open_trace([path]).tables
    return table


def test_lines_without_requests_are_left_out(tmp_path: Path) -> None:
    lines = [of_vllm(0.0, 0, 0, 0.0), of_vllm(900.0, 8, 0, 5.5), of_vllm(1000.0, 9, 4, 70.0)]
    table = table_of(tmp_path, "".join(lines) + of_vllm(1100.0, 16, 2, 60.0) + of_vllm(300.0, 1, 0, 2.0))
    assert table.title == (
        "Log of vLLM: 825 tokens a second generated and 25.5 of prompts read (means of 4 lines), at most 16 requests "
        "at once, up to 4 wait, in 50 % of the lines, KV cache at most 70 % full"
    )
    assert table.column("running") == (8.0, 9.0, 16.0, 1.0)
    assert table.column("prompts") == (25.5,) * 4


def test_older_lines_of_vllm_are_read(tmp_path: Path) -> None:
    line = of_vllm(10.0, 1, 0, 1.0).replace("Waiting:", "Swapped: 0 reqs, Pending:")
    assert (
        "10.0 tokens a second generated and 25.5 of prompts read (means of 3 lines), at most 1 request"
        in (table_of(tmp_path, line * 3).title)
    )


@pytest.mark.parametrize(("others", "told"), [(10, False), (9, True)])
def test_lines_in_which_only_prompts_are_read_are_counted_from_a_tenth_on(
    tmp_path: Path, others: int, told: bool
) -> None:
    assert (1 / (1 + others) >= NOTEWORTHY_SILENCE) is told
    title = table_of(tmp_path, of_vllm(20.0, 2, 0, 1.0) * others + of_vllm(0.0, 2, 0, 1.0)).title
    assert ("none generated in 10 % of the lines" in title) is told


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_data_parallel_ranks_speak_for_themselves(tmp_path: Path, engine: str, ranks: int) -> None:
    lines = [
        of_vllm(10.0, 1, 0, 1.0).replace("Engine 000", f"Engine 00{number % ranks}")
        if engine == "vLLM"
        else of_sglang(10.0, 1, 0, 0.5).replace(" TP0]", f" DP{number % ranks} TP0 EP0]")
        for number in range(6)
    ]
    title = table_of(tmp_path, "".join(lines)).title
    said = ", for each of 2 data-parallel ranks" if ranks > 1 else ""
    assert title.startswith(f"Log of {engine}{said}: 10.0 tokens a second")


def test_sglang_states_parts_of_its_cache(tmp_path: Path) -> None:
    table = table_of(tmp_path, of_sglang(123.5, 2, 1, 0.25) * 3)
    assert table.title == (
        "Log of SGLang: 124 tokens a second (median of 3 lines), at most 2 requests at once, up to 1 wait, in 100 % of "
        "the lines, KV cache at most 25 % full"
    )
    assert table.column("prompts") == (None,) * 3


def test_what_captured_graphs_before_is_not_told_instead(tmp_path: Path) -> None:
    bar = "".join(f"Capturing: {n}%| | {n}/67 [00:0{n % 9}<01:00,  1.19s/it]\r" for n in range(40))
    assert table_of(tmp_path, bar + "\n" + of_vllm(10.0, 1, 0, 1.0) * 3).title.startswith("Log of vLLM")


@pytest.mark.parametrize(("lines", "known"), [(2, False), (3, True)])
def test_a_few_lines_are_nobodys_log(tmp_path: Path, lines: int, known: bool) -> None:
    text = of_vllm(10.0, 1, 0, 1.0) * lines + of_vllm(0.0, 0, 0, 0.0)
    if known:
        assert len(table_of(tmp_path, text).rows) == lines
        return
    with pytest.raises(UnknownFormat):
        table_of(tmp_path, text)
