"""Output of nccl-tests that something else was printed into, and that of several tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parsers.test_results import NCCL, opened


@pytest.mark.parametrize("label", ["0: ", "  0: ", "gpu-7.cluster 12: "])
def test_what_srun_and_mpiexec_put_before_lines_is_passed_over(label: str, tmp_path: Path) -> None:
    labelled = "".join(label + line for line in NCCL.splitlines(keepends=True))
    assert opened(tmp_path / "a.out", labelled).tables == opened(tmp_path / "plain.log", NCCL).tables


def test_rows_that_the_log_of_nccl_is_printed_into_are_whole(tmp_path: Path) -> None:
    """The name of a container begins with a digit, and stands right behind the row's own."""
    log = "38dcf168f605:1443:1443 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo NVLS proto SIMPLE\n"
    torn = NCCL.replace("     sum      -1 ", f"     sum      -1{log}{log * 3} ")
    (table,) = opened(tmp_path / "torn.log", log * 5 + torn).tables
    assert table == opened(tmp_path / "plain.log", NCCL).tables[0]
    assert (table.column("root"), table.column("#wrong out of place")) == ((-1.0, -1.0), (0.0, 0.0))


def test_each_table_is_named_after_the_test_that_was_started_last(tmp_path: Path) -> None:
    started = "# Collective test starting: {}_perf\n"
    text = NCCL + started.format("alltoall") + NCCL + started.format("sendrecv") + NCCL
    names = [table.title.split(",")[0] for table in opened(tmp_path / "three.log", text).tables]
    assert names == ["nccl-tests alltoall", "nccl-tests alltoall", "nccl-tests sendrecv"]
