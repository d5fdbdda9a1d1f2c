"""Programs of JAX are told from those of PyTorch, and get advice that they can follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parsers.model import CopyKind, EventKind
from rules import Category
from rules.analysis.names.host_language import Audience, program_of
from tests.opened import diagnosed, opened
from tests.rules.builder import TinyTrace, found, repeated

JAX, TORCH = "PjitFunction(add)", "aten::mm"


def launches(trace: TinyTrace, at: float) -> None:
    trace.kernels(at, 66, 2, 30)


def synchronises(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 900, "loop_fusion", at)
    trace.call(at + 10, at + 1100, "cuStreamSynchronize")
    trace.operation(at + 1110, at + 1995, "loop_fusion", at + 1102)


def copies(trace: TinyTrace, at: float) -> None:
    trace.copy(at + 5, at + 505, "HtoD", at + 2, pageable=True)
    trace.copy(at + 505, at + 905, "DtoH", at + 4)
    trace.operation(at + 905, at + 2000, "loop_fusion", at + 8)


def loads(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 6, at + 600, "loop_fusion", at)
    trace.region(at + 602, at + 1500, "load_batch")
    trace.step(at, at + 2000, f"ProfilerStep#{int(at) // 2000}")


def waits(trace: TinyTrace, at: float) -> None:
    trace.kernels(at, 10, 8, 10)


def multiplies(trace: TinyTrace, at: float) -> None:
    trace.operation(at + 5, at + 1990, "volta_sgemm_64x64_nn", at + 1)


CASES = [
    (launches, Category.LAUNCH_BOUND, "jax.jit"),
    (synchronises, Category.SYNCHRONIZATION, "block_until_ready"),
    (copies, Category.COPY_H2D, "jax.device_put"),
    (copies, Category.COPY_D2H, "copy_to_host_async"),
    (loads, Category.INPUT_BOUND, "jax.device_put"),
    (waits, Category.HOST_BOUND, "JAX runs ahead"),
    (multiplies, Category.NO_TENSOR_CORES, "jax_default_matmul_precision"),
]


@pytest.mark.parametrize(("body", "category", "word"), CASES)
def test_jax_is_advised_in_its_own_words(
    body: Callable[[TinyTrace, float], None], category: Category, word: str
) -> None:
    of_jax, of_torch, native = (found(repeated(body, each, 24), category) for each in (JAX, TORCH, ""))
    assert word in " ".join(of_jax.advice)
    assert "torch" not in f"{of_jax.advice} {of_jax.code}"
    assert word not in " ".join((*of_torch.advice, *native.advice))


@pytest.mark.parametrize(
    ("compiled_us", "said"), [(200, "makes these copies itself"), (198, "jax.device_put")]
)
def test_copies_inside_a_compiled_function_are_not_those_of_its_arguments(
    compiled_us: float, said: str
) -> None:
    def body(trace: TinyTrace, at: float) -> None:
        trace.operation(
            at + 5, at + 5 + compiled_us, "copy-done.2", kind=EventKind.MEMCPY, copy_kind=CopyKind.H2D.value
        )
        trace.copy(at + 600, at + 800, "HtoD", at + 3)
        trace.operation(at + 905, at + 2000, "loop_fusion", at + 8)

    assert said in " ".join(found(repeated(body, JAX, 24), Category.COPY_H2D).advice)


@pytest.mark.parametrize(
    ("operators", "audience"),
    [
        ((JAX,), Audience.JAX),
        ((TORCH,), Audience.PYTORCH),
        ((JAX, TORCH), Audience.PYTORCH),
        (("cupy.matmul",), Audience.OTHER_PYTHON),
        ((), Audience.NATIVE),
    ],
)
def test_a_program_is_known_by_the_names_of_what_it_runs(
    operators: tuple[str, ...], audience: Audience
) -> None:
    trace = TinyTrace()
    trace.operation(10, 100, "gemm", 0)
    for operator in operators:
        trace.op(0, 5, operator)
    assert program_of(trace.build()) is audience


@pytest.mark.parametrize("name", ["jax_eager.trace.json.gz", "jax_eager.xplane.pb.gz"])
def test_a_recording_of_jax_is_recognised(fixtures: Path, name: str) -> None:
    path = fixtures / "programs" / name
    assert program_of(opened(path)) is Audience.JAX
    assert not any("torch." in advice for each in diagnosed(path).findings for advice in each.advice)
