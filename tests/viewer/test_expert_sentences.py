"""What an expert says of other people's recordings, read against their raw data, and what must never be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers.model import TraceError
from parsers.model.late import dataclass
from tests.opened import analysed, diagnosed
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
        ("421 launches were recorded", "once, at start-up"),
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
        "The GPU is the limit: 93 %",
        (
            "one long wait: 463 ms",
            "hipMemcpyWithStream",
            "software: SGLang, PyTorch",
            "--enable-torch-compile",
        ),
        ("Compile the model", "98 % of", "36 steady", "idles 98"),
    ),
    Expected(
        "chrome/*b200__eager*",
        "The CPU launches too slowly: 41 %",
        ("software: vLLM", "--enforce-eager"),
        ("DistributedDataParallel", "36 steady"),
    ),
    Expected(
        "chrome/*resnet_act_checkpoint*",
        "Communication is not overlapped: 62 %",
        ("4 collectives a step",),
        ("SubTensorOp",),
    ),
    Expected(
        "chrome/*negative_queue*",
        "Queued work waits for something unrecorded: ",
        ("gaps in the launch of a graph, the longest 64", "64 % 138 ms between queued operations"),
        ("Communication is not overlapped: 15 % of every step The",),
    ),
    Expected("chrome/*mtia_inference*", "The GPU is the limit: 95 %", (), ("steady step",)),
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
    Expected(
        "nsys/*h100_2gpu_1s*", "Copies to the GPU are not overlapped", (), ("waits for Python:", "28 steady")
    ),
    Expected(
        "nsys/*mfu_2gpu*",
        "Unfused kernels only move memory: 2",
        ("software: FSDP, PyTorch",),
        ("DistributedDataParallel(", "15 steady", "16 steady", "17 steady"),
    ),
    Expected("nsys/*healthy_judged*", "The GPU is the limit: 99 %"),
    Expected(
        "nsys/*JACC*",
        "No GPU activity was recorded",
        ("CUDA profiling might have not been started correctly",),
    ),
    Expected(
        "nsys/*cloverleaf*",
        "The GPU computes 88 %",
        (
            "10 steady steps",
            "The largest other cost: waiting for results stalls the GPU: 6.7 % of every step",
            "6.7 % 2.17 ms blocked by a synchronisation",
        ),
        ("torch", "DataLoader"),
    ),
    Expected("nsys/*Mordred*", "The GPU waits for the CPU", ("3 steady steps",), ("torch", "DataLoader")),
    Expected(
        "rocm/matmul_result.rpd", "Only first use was recorded", ("hipModuleLoadData",), ("waits for Python",)
    ),
    Expected(
        "ncu/Gardenia*",
        "3 profiled kernels, no verdict: their throughput was not measured",
        ("--section SpeedOfLight", "Checked, nothing found: kernel-fp64 Not"),
        ("worth fixing first",),
    ),
    Expected(
        "ncu/Olajide*",
        "limited by compute (97 % compute, memory not measured)",
        ("kernel-atomics",),
        ("worth fixing",),
    ),
    Expected("ncu/brycelelbach*", "scattered memory accesses"),
    Expected("../real/power.query.csv", "busy 65 % of the time", ("its power limit 69 %",), ("100 % idle",)),
    Expected("../smi/dmon.txt", "GPU 0 over 401 s: busy 1.8 % of the time", ("685 W",)),
    Expected(
        "chrome/*owlv2*",
        "The GPU waits for data: 51 %",
        ("scipy/ndimage/_interpolation.py(739): zoom", "num_workers=0"),
        ("record with stacks",),
    ),
    Expected(
        "chrome/*xdit*",
        "The CPU launches too slowly: 13 %",
        ("software: xDiT, Diffusers", "compiled already", "inductor", "the GPU idles 395 ms of the 1.20 s"),
        (
            "where: execute_diffusion",
            "run execute_diffusion",
            "model is being recompiled",
            "capture the forward pass",
            "off the critical path: 405 ms",
        ),
    ),
    Expected(
        "chrome/*timesformer*",
        "The GPU waits for Python: 55 %",
        ("preprocess", "software: Transformers, PyTorch"),
    ),
    Expected(
        "nsys/*saxpy*",
        "The GPU waits for the CPU: 66 %",
        ("main (66 %)", "std::abs(double)", "software: CUDA, MPI"),
        ("DataLoader", "sample the CPU", "torch.profiler"),
    ),
    Expected(
        "nsys/*power_iteration*",
        "The GPU waits for Python: 35 %",
        ("software: CuPy", "_Py_dg_dtoa", "at most twice as fast", "array.astype"),
        ("2.6x faster", "TF32", "waits for data", "DataLoader", "torch.autocast", "32.4 times"),
    ),
    Expected(
        "../real/jax_compiled.trace.json.gz",
        "Waiting for results stalls the GPU: 50 %",
        ("software: JAX", "np.asarray", "50 % 1.40 ms blocked by a synchronisation"),
        ("torch", "cudaEventSync"),
    ),
    Expected(
        "chrome/*cupti_profiler*",
        "77 kernels ran: their hardware counters were recorded, but no times",
        ("profiler_metrics",),
        ("ProfilerActivity.CUDA was off", "launches, no kernel", "x faster"),
    ),
    Expected(
        "chrome/*cpu_only*",
        "No GPU activity was recorded",
        ("Record the GPU as well",),
        ("100 % idle", "waits for Python:", "x faster"),
    ),
    Expected(
        "xprof/*jax08_gemm*",
        "The CPU launches too slowly: 40 %",
        ("software: JAX", "60 % 579 us compute", "the GPU idles 986 us of the 1.58 ms", "one jax.jit"),
        ("torch", "DataLoader", "CUDA"),
    ),
    Expected(
        "rocm/*results.db",
        "The GPU is the limit: 99 %",
        ("99 % 2.61 s compute", "laplacian_kernel", "rocprof-compute"),
        ("nsys", "Nsight Systems", "torch", "DataLoader", "x faster"),
    ),
    Expected(
        "chrome/*nccl_data*",
        "The CPU launches too slowly: 46 %",
        (
            "26 % 44.4 ms waiting for Python",
            "the GPU idles 111 of the 222 ms",
            "unflatten_dense_tensors",
            "3 steady steps",
        ),
        ("in a worker process",),
    ),
    Expected(
        "chrome/*ns_resolution*",
        "Matrix products without tensor cores: 61 %",
        ("The GPU is the limit: 97 %", "neither TF32 nor bf16", "5 steady steps"),
        ("set_float32_matmul_precision", "launches too slowly"),
    ),
    Expected(
        "chrome/*gpu_only*",
        "Tensors change layout back and forth: 15 %",
        ("97 % 5.26 ms compute", "822 us of 5.98 ms", "batched_transpose"),
        ("DataLoader", "CUDA graph"),
    ),
    Expected(
        "chrome/*bert-small*",
        "The CPU launches too slowly: 75 %",
        ("24 % 307 us compute", "the GPU idles 4.08 of the 4.43 ms", "software: Transformers, PyTorch"),
        ("GPU memory is nearly full", "Reserved memory"),
    ),
    Expected(
        "chrome/*large_integer*", "Too little was recorded to judge: 1 GPU operation", (), ("x faster",)
    ),
    Expected("chrome/*rank_not_found*", "No GPU activity was recorded", (), ("100 % idle", "x faster")),
    Expected("chrome/*rank_non_gpu*", "No GPU activity was recorded", (), ("100 % idle", "x faster")),
    Expected("chrome/*distributed_info*", "No GPU activity was recorded", (), ("100 % idle", "x faster")),
    Expected(
        "ncu/AveryClapp*",
        "two_blocktiling: too few blocks for the GPU (33 % compute, 44 % memory)",
        ("one_blocktiling: the last wave of blocks", "a larger grid helps more"),
        ("mostly waits", "use fewer registers"),
    ),
    Expected(
        "ncu/CodeGandee*details*",
        "cublasGemv · kernel: too few blocks for the GPU (9.2 % compute, 20 % memory)",
        ("the grid is only 70 %",),
        ("use fewer registers",),
    ),
    Expected(
        "rocm/*results.csv",
        "The GPU is the limit: 99 %",
        ("laplacian_kernel",),
        ("nsys", "torch", "DataLoader", "x faster"),
    ),
    Expected(
        "rocm/matmul_result.json", "Only first use was recorded: 94 %", ("hipModuleLoadData",), ("nsys",)
    ),
    Expected(
        "rocm/*908_results*",
        "Communication is not overlapped: 71 %",
        ("52 steady steps", "Also: warm-up is in the recording", "11 % 5.10 ms compute"),
        ("waits for Python", "x faster"),
    ),
    Expected(
        "xprof/*jax_conv*",
        "Waiting for results stalls the GPU: 84 %",
        ("79.5 of 94.7 ms", "block_until_ready", "software: JAX", "allocat"),
        ("Serve several requests", "torch.profiler", "Python outside any region alone"),
    ),
    Expected(
        "../serve/engine.sqlite",
        "cuDNN's attention builds a new plan for each new shape: 84 %",
        (
            "2.42 of the 3.27 s of all steps",
            "Pad to a few lengths",
            "51 prefill and 91 decode steps",
            "Python inside engine steps alone",
        ),
        ("outside any region", "Remove the extra work of", "hooks, bookkeeping", "DataLoader"),
    ),
    Expected("../smi/query.csv", "GPU 0 over 401 s: busy 2.0 %", ("its power limit 1.6 %",), ("100 % idle",)),
]


ONE_OF = 8  # of so many, `make test` reads one

CHOSEN = [
    pytest.param(each, id=each.file, marks=pytest.mark.thorough if number % ONE_OF else ())
    for number, each in enumerate(EXPECTED)
]


@pytest.mark.parametrize("expected", CHOSEN)
def test_the_report_is_one_that_an_expert_would_sign(expected: Expected, shared_data: Path) -> None:
    found = sorted((shared_data / "public").glob(expected.file))
    if not found:
        pytest.skip(f"{expected.file} is not among the recordings on this machine")
    for path in found:
        analysis = analysed(path)
        report = as_text(analysis.trace, diagnosed(path), analysis)
        lower = " ".join(report.lower().split())
        assert expected.verdict.lower() in report.splitlines()[0].lower()
        assert [text for text in expected.says if text.lower() not in lower] == []
        assert [text for text in expected.never if text.lower() in lower] == []


def test_a_report_in_which_nothing_was_measured_says_what_the_profiler_said(shared_data: Path) -> None:
    (path,) = (shared_data / "public" / "ncu").glob("CodeGandee*raw.csv")
    with pytest.raises(TraceError, match="did not match any section"):
        analysed(path)
