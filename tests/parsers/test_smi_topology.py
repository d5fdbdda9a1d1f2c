"""What nvidia-smi prints of the links between GPUs becomes a table whose title sums them up."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import UnknownFormat


def test_the_title_says_which_links_join_how_many_pairs(fixtures: Path) -> None:
    (table,) = open_trace([fixtures / "smi" / "topology.txt"]).tables
    assert table.title == (
        "Links between 4 GPUs: the link between CPUs (SYS) for 4 of 6 pairs, NVLink (NV4) for 2 of 6 pairs"
    )
    assert table.rows[0] == ("GPU0", "X", "NV4", "SYS", "SYS", "PIX")
    assert [row[0] for row in table.rows] == ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-3\nGPU1\tNV18\t X \t0-3\n",
            "NVLink (NV18)",
        ),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPHB\t0\nGPU1\tPHB\tX\t0\n", "the CPU's PCIe bridge (PHB)"),
    ],
)
def test_equal_links_are_said_once(text: str, title: str, tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(text)
    (table,) = open_trace([tmp_path / "topo.txt"]).tables
    assert table.title == f"Links between 2 GPUs: {title}"


def test_one_gpu_has_no_links(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("\tGPU0\tCPU Affinity\nGPU0\tX\t0-3\n")
    assert open_trace([tmp_path / "topo.txt"]).tables[0].title == "Links of 1 GPU"


def test_a_text_about_affinities_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text("The CPU Affinity of GPU0 is 0-3\n")
    with pytest.raises(UnknownFormat):
        open_trace([tmp_path / "topo.txt"])
