"""No band passes what is left of a step once the work that a fix shortens takes no time at all."""

from __future__ import annotations

import pytest

from rules.analysis.analysis import Analysis
from rules.fixes.plan import Plan, Promise, make_plan
from tests.rules.builder import TinyTrace, steps

# The cases lie on either side of these.
HOST_UNSURE = 1.2
MOSTLY_BUSY = 1.5  # of a step for the GPU's work
READ_BACK_US = 2.0


def promised(plan: Plan, fix: str) -> Promise:
    (found,) = (each for each in plan.promises if each.id.startswith(fix))
    return found


def read_back(kernel_us: float, idle_us: float) -> Plan:
    """Steps of one kernel whose result the CPU reads, and then takes ``idle_us`` until it launches the next."""
    length_us = kernel_us + READ_BACK_US + idle_us + 20

    def body(trace: TinyTrace, _: int) -> None:
        at = 0.0
        trace.operation(at + 10, at + 10 + kernel_us, "Fan2", at)
        end = at + 12 + kernel_us + READ_BACK_US
        trace.copy(at + 11 + kernel_us, end - 1, "DtoH", at + 8, pageable=True, bytes=4)
        trace.call(at + 9, end + 2, "cudaStreamSynchronize")

    return make_plan(Analysis(steps(12, length_us, body).build()))


@pytest.mark.parametrize("idle_us", [70.0, 140.0, 600.0])
def test_a_read_back_gives_no_more_than_all_but_the_kernels(idle_us: float) -> None:
    plan = read_back(900.0, idle_us)
    found = promised(plan, "remove-read-backs")
    most = plan.replay.recorded_ns / 900_000
    assert found.expected <= found.high <= most * (1 + 1e-6)


def products(product_us: float, idle_us: float) -> Plan:
    """Steps of one product in single precision, other work, and a time in which only the CPU works."""

    def body(trace: TinyTrace, _: int) -> None:
        at = 0.0
        trace.op(at, at + 20, "aten::mm")
        trace.operation(at + 10, at + 10 + product_us, "ampere_sgemm_128x128_tn", at + 5)
        trace.operation(at + 11 + product_us, at + 311 + product_us, "my_scan", at + 15)
        trace.call(at + 25, at + 315 + product_us, "cudaStreamSynchronize")
        trace.region(at + 316 + product_us, at + 320 + product_us + idle_us, "tokenize")

    return make_plan(Analysis(steps(12, product_us + idle_us + 340, body).build()))


@pytest.mark.parametrize("product_us", [200.0, 400.0])
@pytest.mark.parametrize("idle", [MOSTLY_BUSY * 0.98, MOSTLY_BUSY * 1.02, 2.5])
def test_faster_products_save_no_more_than_they_take(product_us: float, idle: float) -> None:
    """Of a step that is mostly the GPU's work, the length is known; of one that is mostly the CPU's, less so."""
    work_us = product_us + 300.0
    plan = products(product_us, idle * work_us - product_us - 340.0)
    found = promised(plan, "use-tensor-cores")
    shortest = plan.replay.usual_ns / (HOST_UNSURE if idle >= MOSTLY_BUSY else 1.0)
    most = shortest / (shortest - product_us * 1_000)
    assert 1.0 < found.expected <= found.high
    assert found.high <= most * (1 + 1e-6)
    assert plan.most(found) == pytest.approx(most)


def test_a_gpu_whose_work_stays_may_belong_to_a_slower_cpu() -> None:
    """Where only the CPU's time is shortened and decides how long a step is, that is not known better than the CPU."""

    def body(trace: TinyTrace, _: int) -> None:
        trace.region(0, 900, "tokenize")
        for number in range(3):
            trace.operation(910 + 30 * number, 940 + 30 * number, "gemm", 901 + 2 * number, launch_us=1.0)

    plan = make_plan(Analysis(steps(12, 1_010, body).build()))
    found = promised(plan, "move-host-phase")
    assert plan.replay.recorded_ns / 90_000 < found.high <= HOST_UNSURE * plan.replay.recorded_ns / 90_000


@pytest.mark.parametrize(("work_us", "is_passed"), [(900.0, True), (2.0, False)])
def test_work_on_the_cpu_may_take_longer_than_it_was_recorded(work_us: float, is_passed: bool) -> None:
    """Also where the copy goes that brings it its data; where the GPU is mostly busy, a step is as long as its work."""

    def body(trace: TinyTrace, _: int) -> None:
        for number in range(3):
            trace.operation(10 + 30 * number, 40 + 30 * number, "gemm", 1 + 2 * number, launch_us=1.0)
        trace.copy(101, 120, "DtoH", 8, pageable=True, bytes=640_000)
        trace.call(9, 122, "cudaStreamSynchronize")
        trace.region(124, 124 + work_us, "metrics")

    plan = make_plan(Analysis(steps(12, 130 + work_us, body).build()))
    found = promised(plan, "copy-less")
    assert (found.high > plan.replay.recorded_ns / 90_000 * (1 + 1e-6)) is is_passed
    assert found.high <= HOST_UNSURE * plan.replay.recorded_ns / 90_000 * (1 + 1e-6)
