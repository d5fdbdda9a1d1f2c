"""Logs of NCCL_DEBUG: links between ranks, a start that never ended, warnings, and lines that mean harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.model import Trace, TraceError
from viewer.cli import main

COMMUNICATOR = "comm 0x1 rank {} nranks 2 cudaDev 0 busId 170 commId 0xab - Init {}"


def line(said: str, level: str = "INFO", host: str = "node-a") -> str:
    return f"{host}:7:8 [0] NCCL {level} {said}\n"


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def titles(trace: Trace) -> list[str]:
    return [table.title for table in trace.tables]


def test_links_are_counted_once_though_both_ends_tell_of_them(
    fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fixtures / "nccl" / "debug.log"
    (table,) = open_trace([path]).tables
    assert table.rows == (
        (
            "InfiniBand or RoCE through the host's memory",
            2.0,
            2.0,
            "Check that nvidia_peermem is loaded (lsmod), and NCCL_NET_GDR_LEVEL",
        ),
        ("GPU to GPU (P2P)", 3.0, 2.0, None),
    )
    assert main(["diagnose", str(path)]) == 0
    assert "NCCL 2.21.5, 4 ranks on 2 computers: InfiniBand or RoCE through the host's memory for 2 of 4" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("via", "link"),
    [
        ("P2P/IPC/read", "GPU to GPU (P2P)"),
        ("SHM/direct/direct", "through the host's memory (SHM)"),
        ("NET/Socket/0", "TCP sockets (NET/Socket)"),
        ("NET/IB/3/GDRDMA", "InfiniBand or RoCE straight from the GPU's memory (GPUDirect RDMA)"),
        ("NET/IB/3", "InfiniBand or RoCE through the host's memory"),
        ("NET/Libfabric/0/GDRDMA", "the network plugin Libfabric (GPUDirect RDMA)"),
    ],
)
def test_a_link_is_called_by_what_it_means(via: str, link: str, tmp_path: Path) -> None:
    (table,) = opened(tmp_path, line(f"Channel 00 : 0[170] -> 1[180] via {via}")).tables
    assert table.column("link") == (link,)


def test_a_rank_that_never_finished_its_start_is_said_first(tmp_path: Path) -> None:
    began = [line(COMMUNICATOR.format(rank, "START")) for rank in (0, 1)]
    channel = line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")
    ended = line(COMMUNICATOR.format(0, "COMPLETE"))
    trace = opened(tmp_path, "".join((*began, channel, ended)))
    assert titles(trace) == [
        "NCCL: rank 1 of 2 did not finish connecting",
        "NCCL, 2 ranks on 1 computer: GPU to GPU (P2P)",
    ]
    whole = opened(tmp_path, "".join((*began, ended, line(COMMUNICATOR.format(1, "COMPLETE")))))
    assert titles(whole) == ["NCCL: 2 ranks, connected"]


@pytest.mark.parametrize(
    ("speed", "back", "told"), [("200.0", "220.0", True), ("220.0", "220.0", False), ("", "220.0", False)]
)
def test_nvlinks_that_are_slower_one_way_are_told(speed: str, back: str, told: bool, tmp_path: Path) -> None:
    """Each thread tells the links of one GPU after the other."""
    lines = [line("+ PCI[24.0] - GPU/0-17000 (0)")]
    lines += [line(f"              + NVL[{speed}] - GPU/0-65000")] if speed else []
    lines += [
        line("+ PCI[24.0] - NIC/0-4b000"),
        line("+ PCI[24.0] - GPU/0-65000 (1)"),
        line(f"              + NVL[{back}] - GPU/0-17000"),
        line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read"),
    ]
    slower = "NCCL: NVLink from GPU 0-17000 to GPU 0-65000 carries 200 GB/s, and 220 GB/s the other way"
    assert titles(opened(tmp_path, "".join(lines)))[:-1] == ([slower] if told else [])


def test_warnings_of_one_kind_are_counted_together(tmp_path: Path) -> None:
    warnings = "".join(
        line(f"Timeout waiting for peer 0x{number:x}, {number}", "WARN") for number in range(10, 13)
    )
    (table,) = opened(tmp_path, warnings + line("out of memory", "WARN")).tables
    assert table.title == "NCCL warns: Timeout waiting for peer 0xa, 10"
    assert table.rows == (("Timeout waiting for peer 0xa, 10", 3.0), ("out of memory", 1.0))


def test_lines_that_were_printed_into_one_another_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    torn = "a:7:8 [1] NCCL INFO comm 0x94 rank 1 nranks a:7:9 [0] NCCL INFO "
    torn += "Channel 00 : 0[170] -> 1[180] via SHM/direct\n"
    (table,) = opened(
        tmp_path, torn * 2 + "sum -1" + line(COMMUNICATOR.format(0, "COMPLETE"), host="a")
    ).tables
    assert table.title == "NCCL, 2 ranks on 1 computer: through the host's memory (SHM)"
    assert table.rows[0][1] == 1.0


@pytest.mark.parametrize(
    ("hosts", "computers"),
    [
        (("node", "0node"), "1 computer"),
        (("0node", "1node"), "2 computers"),
        (("node", "node0"), "2 computers"),
    ],
)
def test_a_number_that_was_printed_before_a_name_makes_no_other_computer(
    hosts: tuple[str, str], computers: str, tmp_path: Path
) -> None:
    done = "".join(line(COMMUNICATOR.format(rank, "COMPLETE"), host=host) for rank, host in enumerate(hosts))
    (table,) = opened(tmp_path, done + line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", host=hosts[0])).tables
    assert table.title == f"NCCL, 2 ranks on {computers}: GPU to GPU (P2P)"


@pytest.mark.parametrize(
    ("torn", "said", "computers"),
    [
        (
            "ndde-a",
            "Bootstrap : Using eth0",
            "1 computer",
        ),  # the beginning of one name and the end of another
        ("ndde-a", COMMUNICATOR.format(0, "START"), "1 computer"),  # of a rank that is known to be elsewhere
        ("cdnode-a", COMMUNICATOR.format(9, "COMPLETE"), "1 computer"),
        ("node-b", COMMUNICATOR.format(9, "COMPLETE"), "2 computers"),
    ],
)
def test_a_name_that_was_printed_into_another_line_makes_no_other_computer(
    torn: str, said: str, computers: str, tmp_path: Path
) -> None:
    done = "".join(line(COMMUNICATOR.format(rank, "COMPLETE"), host="node-a") for rank in range(9))
    text = done + line(said, host=torn) + line("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", host="node-a")
    tables = opened(tmp_path, text).tables
    assert tables[-1].title.endswith(f" on {computers}: GPU to GPU (P2P)")


def test_a_collective_that_timed_out_is_said_first(tmp_path: Path) -> None:
    def watchdog(rank: int, number: int) -> str:
        return (
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=60000) ran for 60012 "
            "milliseconds before timing out.\n"
        )

    connected = line(COMMUNICATOR.format(0, "COMPLETE"))
    trace = opened(tmp_path, connected + watchdog(3, 7) + watchdog(1, 7) * 2 + watchdog(0, 8))
    assert (
        titles(trace)[0]
        == "ALLREDUCE number 7 timed out after 60.0 s on ranks 1, 3, and 1 other rank in later ones"
    )
    assert [row[:3] for row in trace.tables[0].rows] == [
        (7.0, "ALLREDUCE", 1.0),
        (7.0, "ALLREDUCE", 3.0),
        (8.0, "ALLREDUCE", 0.0),
    ]
    assert "timed out" not in "".join(titles(opened(tmp_path, connected)))
    # without NCCL_DEBUG
    assert titles(opened(tmp_path, "Epoch 3\n" * 20_000 + watchdog(0, 8))) == [
        "ALLREDUCE number 8 timed out after 60.0 s on rank 0"
    ]


def test_a_log_that_tells_nothing_of_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not say how its ranks are connected"):
        opened(tmp_path, line("Bootstrap : Using eth0:10.0.0.1<0>"))


def test_a_benchmark_says_over_which_links_it_ran(fixtures: Path, tmp_path: Path) -> None:
    rows = (fixtures / "results" / "nccl_tests.txt").read_text()
    trace = opened(tmp_path, line("Channel 00/0 : 0[0] -> 1[1] via SHM/direct") + rows)
    assert titles(trace)[-1] == "NCCL: through the host's memory (SHM)"


@given(
    st.lists(
        st.sampled_from(
            [
                "Channel 0",
                " : 0[1] -> 1[0]",
                " via NET/",
                "IB",
                "\n",
                "commId 1 - Init START",
                " rank 1 nranks 2 ",
            ]
        )
    )
)
def test_any_lines_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("logs")
    try:
        opened(folder, line("oops", "WARN") + line("".join(parts)))
    except TraceError:
        return
