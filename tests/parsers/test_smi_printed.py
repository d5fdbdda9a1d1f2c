"""The box that nvidia-smi prints without options, and lines of tegrastats, become counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Counter, UnknownFormat

# The cases lie on either side of these.
NS = 1_000_000_000

BOX = """Wed Feb  5 14:07:58 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.144.03             Driver Version: 550.144.03     CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          Off |   00000000:81:00.0 Off |                    0 |
| N/A   32C    P0             52W /  400W |     100MiB /  40960MiB |     37%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   3  NVIDIA GeForce RTX 3090        Off |   00000000:C1:00.0 Off |                  N/A |
| 30%   45C    P8             N/A /  N/A  |       1MiB /  24576MiB |     N/A      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|    0   N/A  N/A      1234      C   python                                          90MiB |
+-----------------------------------------------------------------------------------------+
"""
TEGRA = """07-21-2025 16:33:42 RAM 17953/62841MB (lfb 9x4MB) SWAP 0/31420MB CPU [7%@1728,31%@1036,off,off] \
EMC_FREQ 12%@204 GR3D_FREQ 39%@[305,0] NVENC off cpu@43.906C gpu@40.093C VDD_GPU_SOC 2798mW/2798mW
07-21-2025 16:33:43 RAM 17953/62841MB (lfb 9x4MB) CPU [9%@1728,31%@1036,off,off] GR3D_FREQ 41%@[305,0] gpu@41C
"""


def opened(folder: Path, text: str) -> dict[str, Counter]:
    (folder / "log.txt").write_text(text)
    return {each.name: each for each in open_trace([folder / "log.txt"]).counters}


def test_a_box_is_one_reading_of_each_gpu(tmp_path: Path) -> None:
    counters = opened(tmp_path, BOX)
    assert counters["GPU 0 GPU utilization"].value.tolist() == [37]
    assert counters["GPU 0 power"].value.tolist() == [52]
    assert counters["GPU 0 power limit"].value.tolist() == [400]
    assert counters["GPU 0 temperature"].value.tolist() == [32]
    assert counters["GPU 0 framebuffer used"].value.tolist() == [100 * 1024**2]
    assert counters["GPU 3 framebuffer total"].value.tolist() == [24576 * 1024**2]
    assert "GPU 3 power" not in counters
    assert "GPU 3 GPU utilization" not in counters


def test_boxes_that_are_printed_again_are_as_far_apart_as_their_dates(tmp_path: Path) -> None:
    counters = opened(tmp_path, BOX + BOX.replace("14:07:58", "14:08:08").replace("37%", "40%"))
    load = counters["GPU 0 GPU utilization"]
    assert (load.time.tolist(), load.value.tolist()) == ([0, 10 * NS], [37, 40])


def test_a_box_beside_a_log_is_left_out(tmp_path: Path) -> None:
    log = "index, utilization.gpu [%], memory.used [MiB]\n0, 50 %, 10 MiB\n0, 60 %, 10 MiB\n"
    for text in (BOX + log, log + BOX):
        assert opened(tmp_path, text)["GPU 0 GPU utilization"].value.tolist() == [50, 60]


def test_lines_of_tegrastats_state_the_gpu_the_cores_and_the_rails(tmp_path: Path) -> None:
    counters = opened(tmp_path, TEGRA)
    load = counters["GPU 0 GPU utilization"]
    assert (load.time.tolist(), load.value.tolist()) == ([0, NS], [39, 41])
    assert counters["GPU 0 graphics clock"].value.tolist() == [305, 305]
    assert counters["GPU 0 temperature"].value.tolist() == [40.093, 41]
    assert counters["GPU 0 cores of the CPU that are on, utilization"].value.tolist() == [19, 20]
    assert counters["GPU 0 VDD_GPU_SOC"].value.tolist() == [2.798]
    assert counters["GPU 0 memory used, shared with the CPU"].unit == "B"


def test_lines_without_a_time_are_a_second_apart(tmp_path: Path) -> None:
    lines = [line.split(" ", 2)[2] for line in TEGRA.splitlines()]
    load = opened(tmp_path, "\n".join(lines))["GPU 0 GPU utilization"]
    assert load.time.tolist() == [0, NS]


def test_texts_that_mention_the_tool_are_no_log(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "run nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate\n")


def test_a_header_of_one_field_comes_with_each_reading(tmp_path: Path) -> None:
    load = opened(tmp_path, "utilization.gpu [%]\n85 %\nutilization.gpu [%]\n94 %\n")["GPU 0 GPU utilization"]
    assert (load.time.tolist(), load.value.tolist()) == ([0, NS], [85, 94])
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "utilization.gpu is a field [%]\n85 %\n")
