"""What an expert says of other people's recordings, read against their raw data, and what must never be said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from parsers import open_trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from viewer.reports.text_report import as_text


@dataclass(frozen=True)
class Expected:
    """One file; all texts are looked for without regard to case, the verdict is the report's first line."""

    file: str  # a pattern inside of public/
    verdict: str
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


EXPECTED = [
    Expected(
        "chrome/*capture_traces*",
        "the recording shows a HIP graph being captured",
        ("421 launches were noted down", "once, at start-up"),
        ("capture the forward pass", "GPU 0 goes", "launching small", "x faster"),
    ),
    Expected(
        "chrome/*vllm_prefilldecode_piecewise*",
        "The GPU is the limit: 100 % of the time",
        ("100 % 156 ms compute",),
        ("24 steady", "24 steps", "waits for Python", "DataLoader"),
    ),
    Expected(
        "chrome/*vllm_decode_full__graph_execution*",
        "The GPU is the limit: 99",
        (),
        ("12 steady", "24 steady"),
    ),
    Expected(
        "chrome/*sglang*",
        "",
        ("one long wait: 463 ms", "hipMemcpyWithStream", "93 %"),
        ("98 %", "36 steady", "idles 98"),
    ),
    Expected(
        "chrome/*b200__eager*", "The CPU launches too slowly: 7", (), ("DistributedDataParallel", "36 steady")
    ),
    Expected(
        "chrome/*resnet_act_checkpoint*",
        "Communication stands alone: 62 %",
        ("4 collectives a step",),
        ("SubTensorOp",),
    ),
    Expected(
        "chrome/*negative_queue*",
        "Queued work waits for something unrecorded: ",
        ("gaps in the launch of a graph, the longest 64", "64 % 689 ms between queued operations"),
        ("Communication stands alone: 15 % of every step The",),
    ),
    Expected("chrome/*mtia_inference*", "The GPU is the limit: 96 %", (), ("steady step",)),
    Expected("chrome/*alexnet*", "Only first use was recorded", ("cudaFree",), ("empty_cache", "x faster")),
    Expected(
        "chrome/*triton_example*",
        "Too little was recorded to judge: 1 GPU operation",
        (),
        ("60,134", "x faster"),
    ),
    Expected("chrome/*cuda_event_sync*", "Too little was recorded", (), ("x faster",)),
    Expected("chrome/*minitoy*", "Too little was recorded", (), ("x faster",)),
    Expected("chrome/*torch_compile_triton*", "The GPU is the limit: 100 %"),
    Expected("nsys/*mock*", "Too little was recorded to judge", (), ("x faster", "waits for Python")),
    Expected("nsys/*h100_2gpu_1s*", "Copies to the GPU stand alone", (), ("waits for Python:", "28 steady")),
    Expected("nsys/*mfu_2gpu*", "", (), ("15 steady", "16 steady", "17 steady")),
    Expected("nsys/*healthy_judged*", "The GPU is the limit: 99 %"),
    Expected(
        "nsys/*JACC*",
        "No GPU activity was recorded",
        ("CUDA profiling might have not been started correctly",),
    ),
    Expected(
        "nsys/*cloverleaf*",
        "Waiting for results stalls the GPU",
        ("10 steady steps",),
        ("torch", "DataLoader"),
    ),
    Expected("nsys/*Mordred*", "The GPU waits for the CPU", ("3 steady steps",), ("torch", "DataLoader")),
    Expected(
        "rocm/matmul_result.rpd", "Only first use was recorded", ("hipModuleLoadData",), ("waits for Python",)
    ),
]


@pytest.mark.parametrize("expected", EXPECTED, ids=[each.file for each in EXPECTED])
def test_the_report_is_one_that_an_expert_would_sign(expected: Expected, shared_data: Path) -> None:
    found = sorted((shared_data / "public").glob(expected.file))
    if not found:
        pytest.skip(f"{expected.file} is not among the recordings on this machine")
    for path in found:
        trace = open_trace([path])
        report = as_text(trace, diagnose(trace), Analysis(trace))
        lower = " ".join(report.lower().split())
        assert expected.verdict.lower() in report.splitlines()[0].lower()
        assert [text for text in expected.says if text.lower() not in lower] == []
        assert [text for text in expected.never if text.lower() in lower] == []
