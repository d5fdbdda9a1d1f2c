"""The recorded software is named by what its names say, and advice speaks its language."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parsers.model import TraceInput
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.names.software import is_compiled, software_of
from rules.findings.base import Category
from rules.fixes.plan import make_plan
from tests.rules.builder import TinyTrace, repeated, steps


def named(*names: str) -> TinyTrace:
    trace = TinyTrace()
    for index, name in enumerate(names):
        trace.region(index * 10, index * 10 + 9, name)
    return trace


@pytest.mark.parametrize(
    ("names", "software"),
    [
        (["vllm/v1/worker/gpu_model_runner.py(753): _update_states", "aten::mm"], ("vLLM", "PyTorch")),
        (["step[DECODE bs=32]", "aten::mm"], ("SGLang", "PyTorch")),
        (["void tensorrt_llm::kernels::quantize<4>(int)", "aten::mm"], ("PyTorch",)),
        (["execute_diffusion_1_256x256", "diffusers/image_processor.py(1): f"], ("xDiT", "Diffusers")),
        (["cupy_multiply__float64"], ("CuPy",)),
        (["_ZN2at6native18elementwise_kernelILi128EEEvi", "cudaLaunchKernel"], ("PyTorch",)),
        (["_ZN6cudapy8__main__8convolveB2v1E5Array", "cuLaunchKernel"], ("Numba",)),
        (["_ZN7mshadow4cuda13MapPlanKernelE4Plan", "cudaLaunchKernel"], ("MXNet",)),
        (["jit(train_step)/dot_general"], ("JAX",)),
        (["MPI_Send", "cudaLaunchKernel"], ("CUDA", "MPI")),
        (["hipLaunchKernel"], ("HIP",)),
        (["sm80_xmma_fprop_implicit_gemm_f16_nhwc_tilesize1_execute_kernel_trt"], ("TensorRT",)),
        (["void mul_mat_vec_q<(ggml_type)13>(void const*)", "hipLaunchKernel"], ("llama.cpp",)),
        (["julia_update_kernel_12", "cuLaunchKernel"], ("Julia",)),
        (["sm80_xmma_fprop_implicit_gemm_f16_execute_kernel__5x_cudnn", "cudaLaunchKernel"], ("CUDA",)),
        (["my_loop"], ()),
        (["TfrtCpuExecutable::Execute"], ()),  # of XLA's own client for CPUs
        (["ExecutorState::Process"], ("TensorFlow",)),
        (["nvkernel_solve_F1L85_3", "_21__fill_c___pgi_uacc_cuda_fill_44_gpu"], ("OpenMP offloading",)),
        (["solve_85_gpu", "_21__fill_c___pgi_uacc_cuda_fill_44_gpu"], ("OpenACC",)),
    ],
)
def test_software_is_recognised_by_its_names(names: list[str], software: tuple[str, ...]) -> None:
    assert software_of(named(*names).build()) == software


@pytest.mark.parametrize(
    ("imports_us", "software"),
    [(100, ("PyTorch",)), (960, ("JAX", "PyTorch"))],
    ids=["at first", "all the time"],
)
def test_software_that_is_only_imported_did_not_run(imports_us: float, software: tuple[str, ...]) -> None:
    trace = TinyTrace()
    trace.frame(0, 1_000, "train.py(3): <module>")
    trace.frame(0, imports_us, "<frozen importlib._bootstrap>(1360): _find_and_load")
    trace.frame(1, imports_us - 1, "/usr/lib/site-packages/jax/_src/pjit.py(295): _cpp_pjit")
    trace.frame(970, 990, "/usr/lib/site-packages/torch/optim/adam.py(12): step")
    assert software_of(trace.build()) == software


def test_software_that_is_only_mentioned_did_not_run() -> None:
    trace = named("aten::mm")
    trace.builder.string("FSDP::pre_forward (blocks.1)")
    trace.builder.string("## Call CompiledFxGraph abc ##")
    built = trace.build()
    assert software_of(built) == ("PyTorch",)
    assert not is_compiled(built)


@pytest.mark.parametrize(
    ("name", "compiled"),
    [("## Call CompiledFxGraph abc ##", True), ("triton_poi_fused_add_0", True), ("compile_report", False)],
)
def test_a_compiled_model_is_known_by_what_runs(name: str, compiled: bool) -> None:
    assert is_compiled(named(name).build()) is compiled


def launching(*names: str) -> Finding:
    """What is said of many small kernels in a program with these names."""

    def body(trace: TinyTrace, index: int) -> None:
        for place, name in enumerate(names):
            trace.op(place, place + 1, name)
        trace.kernels(10, 40, 2, 24)

    found = diagnose(steps(4, 1000, body).build()).findings
    return next(each for each in found if each.category is Category.LAUNCH_BOUND)


@pytest.mark.parametrize(
    ("names", "says", "never"),
    [
        (["aten::mm"], "torch.compile", "--enforce-eager"),
        (["aten::mm", "vllm::all_reduce"], "--enforce-eager", "torch.compile(model"),
        (["aten::mm", "sgl_kernel::fused"], "--disable-cuda-graph", "--enforce-eager"),
        (["aten::mm", "triton_poi_fused_add_0"], "compiled already", "torch.compile(model"),
    ],
)
def test_advice_against_slow_launching_speaks_the_language_of_the_engine(
    names: list[str], says: str, never: str
) -> None:
    advice = " ".join(launching(*names).advice)
    assert says in advice
    assert never not in advice


@pytest.mark.parametrize(
    ("kernel", "audience"),
    [
        ("_ZN2at6native18elementwise_kernelILi128EEEvi", Audience.PYTORCH),
        ("_ZN6cudapy8__main__8convolveB2v1E5Array", Audience.ARRAYS),
        ("_ZN7mshadow4cuda13MapPlanKernelE4Plan", Audience.ARRAYS),
        ("_ZN3sim8convolveE5Array", Audience.NATIVE),
    ],
)
def test_mangled_kernels_tell_who_reads_the_advice(kernel: str, audience: Audience) -> None:
    trace = TinyTrace()
    trace.operation(0, 100, kernel, -5)
    assert program_of(trace.build()) is audience


def test_a_program_of_arrays_is_python_but_hears_nothing_of_torch() -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.frame(0, 990, "solver.py(3): iterate")
        trace.operation(10, 300, "cupy_multiply__float64", 5)
        trace.operation(300, 305, "cupy_sqrt__float64", 8)

    trace = steps(4, 1000, body).build()
    assert program_of(trace) is Audience.ARRAYS
    (finding,) = [each for each in diagnose(trace).findings if each.category is Category.HOST_BOUND]
    said = " ".join((finding.title, finding.explanation, *finding.advice, finding.code, finding.cannot_tell))
    assert "Python" in said
    assert "torch" not in said
    assert "DataLoader" not in said


@pytest.mark.parametrize(
    ("kernel", "title"),
    [
        ("cupy_multiply__float64", "Fuse neighbouring kernels"),
        ("void scale_all<double>(double*)", "Fuse neighbouring kernels"),
        ("void at::native::vectorized_elementwise_kernel<4, float>(int)", "Compile the model"),
    ],
)
def test_only_a_model_is_compiled(kernel: str, title: str) -> None:
    def body(trace: TinyTrace, at: float) -> None:
        for each in range(24):
            trace.operation(at + 20 + each * 70, at + 90 + each * 70, kernel, at + 5 + each * 6)

    plan = make_plan(Analysis(repeated(body)), reaches={})
    (compiled,) = [each.proposal for each in plan.promises if each.proposal.fix == "compile-model"]
    assert compiled.title.startswith(f"{title}: 100 % of the GPU's time only moves memory")
    assert ("model" in compiled.depends_on) is title.endswith("model")


def waiting(*, frames: bool, long: bool) -> Finding:
    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 2, "aten::mm")
        trace.operation(8, 100, "gemm", 2)
        trace.region(100, 980, "next_batch")
        if frames:
            trace.frame(0, 990, "train.py(9): main")
            trace.frame(110, 900 if long else 300, "scipy/ndimage/_interpolation.py(739): zoom")

    found = diagnose(steps(4, 1000, body).build()).findings
    return next(each for each in found if each.category is Category.INPUT_BOUND)


def test_the_deepest_frame_that_holds_most_of_a_wait_is_told_and_no_stacks_are_asked_for() -> None:
    finding = waiting(frames=True, long=True)
    assert "_interpolation.py(739): zoom" in finding.explanation
    assert "with_stack" not in finding.cannot_tell


def test_a_frame_that_holds_little_of_a_wait_is_not_told() -> None:
    assert "zoom" not in waiting(frames=True, long=False).explanation


def test_without_frames_stacks_are_asked_for() -> None:
    assert "with_stack" in waiting(frames=False, long=False).cannot_tell


@pytest.mark.parametrize(
    ("asks", "frees", "switched_off"),
    [(60, 60, True), (60, 10, False), (50, 50, True), (49, 49, False), (60, 45, True), (60, 44, False)],
)
def test_as_many_calls_that_give_memory_back_mean_that_the_cache_is_off(
    asks: int, frees: int, switched_off: bool
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.op(0, 1, "aten::mm")
        trace.operation(10, 100, "gemm", 2)
        for number in range(asks):
            trace.call(100 + 12 * number, 105 + 12 * number, "hipMalloc")
            if number < frees:
                trace.call(106 + 12 * number, 111 + 12 * number, "hipFree")
        trace.operation(900, 990, "gemm", 880)

    found = diagnose(steps(4, 1000, body).build()).findings
    finding = next(each for each in found if each.category is Category.ALLOCATOR)
    assert ("switched off" in finding.explanation) is switched_off
    assert any("NO_CUDA_MEMORY_CACHING" in advice for advice in finding.advice) is switched_off


@pytest.mark.parametrize(
    ("names", "told", "never"),
    [
        (["aten::mm"], "torch.profiler.schedule", "/start_profile"),
        (["aten::mm", "vllm::all_reduce"], "/start_profile and /stop_profile", "torch.profiler.schedule"),
        (["aten::mm", "sgl_kernel::fused"], "num_steps", "torch.profiler.schedule"),
    ],
)
def test_recording_later_is_told_by_the_recorder_of_the_engine(
    names: list[str], told: str, never: str
) -> None:
    trace = named(*names)
    trace.op(95, 96, "aten::mm")
    trace.operation(100, 200, "gemm", 90)
    (finding,) = (each for each in diagnose(trace.build()).findings if each.rule == "what-was-recorded")
    said = " ".join((*finding.advice, finding.code))
    assert told in said
    assert never not in said


def test_a_program_recorded_by_nsight_systems_is_not_told_of_torchs_schedule() -> None:
    trace = named("aten::mm")
    trace.op(95, 96, "aten::mm")
    trace.operation(100, 200, "gemm", 90)
    made = replace(trace.build(), inputs=(TraceInput("a.sqlite", "nsys-sqlite", "Nsight Systems 2025.1"),))
    (finding,) = (each for each in diagnose(made).findings if each.rule == "what-was-recorded")
    assert "torch.profiler.schedule" not in " ".join(finding.advice)
    assert any("after start-up" in each for each in finding.advice)
