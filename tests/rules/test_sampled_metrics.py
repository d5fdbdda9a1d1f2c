"""Sampled GPU metrics: which samples count for which kernel, what limits it, and what is said of all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Counter, Trace
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.beside.gpu_metrics import Limit, gpu_use
from tests.rules.builder import TinyTrace, ns

# The cases lie on either side of these.
FEW_ACTIVE = 60.0
MIN_SAMPLES = 5
NEAR_THE_LIMIT = 60.0
MIN_LIMIT = 0.05
MIN_TOLD = 0.1

EVERY_US = 10
NAMES = ("SMs active", "SM issue", "Tensor active", "DRAM read bandwidth", "DRAM write bandwidth")
Use = tuple[float, float, float, float, float]  # in percent, in the order of the names
BUSY: Use = (99.0, 10.0, 90.0, 10.0, 10.0)


def sampled(
    *kernels: tuple[float, float, str, Use], names: tuple[str, ...] = NAMES, until: float = 2_000
) -> Trace:
    """Kernels, each with what is sampled while it runs."""
    tiny = TinyTrace()
    time = np.arange(0, until, EVERY_US)
    values = np.zeros((len(names), len(time)))
    for start, end, name, use in kernels:
        tiny.operation(start, end, name, start)
        values[:, (time > start) & (time <= end)] = np.array(use)[:, None]
    device = tiny.builder.devices.index(tiny.builder.devices[0])
    moments = np.array([ns(each) for each in time], np.int64)
    for name, value in zip(names, values, strict=True):
        tiny.builder.counters.append(Counter(f"GPU 0 {name}", "%", moments, value, None, device))
    return tiny.builder.build()


def told(trace: Trace) -> list[Finding]:
    return [each for each in diagnose(trace).findings if each.rule == "sampled-metrics"]


def limit_of(use: Use) -> Limit:
    ((device,),) = (gpu_use(Analysis(sampled((100, 1_000, "k", use)))),)
    return device.kernels[0].limit


@pytest.mark.parametrize(
    ("use", "limit"),
    [
        ((99, 10, NEAR_THE_LIMIT, 30, 20), Limit.TENSOR),
        ((99, 10, NEAR_THE_LIMIT - 1, 30, 20), Limit.LATENCY),
        ((99, 10, 5, NEAR_THE_LIMIT - 20, 20), Limit.MEMORY),
        ((99, 10, 5, NEAR_THE_LIMIT - 21, 20), Limit.LATENCY),
        ((99, NEAR_THE_LIMIT, 5, 30, 20), Limit.ISSUE),
        ((99, NEAR_THE_LIMIT - 1, 5, 30, 20), Limit.LATENCY),
        ((FEW_ACTIVE - 1, 10, 5, 5, 5), Limit.FEW_BLOCKS),
        ((FEW_ACTIVE, 10, 5, 5, 5), Limit.LATENCY),
        ((99, 90, 95, 60, 30), Limit.TENSOR),
    ],
)
def test_what_is_used_most_limits_a_kernel_from_a_share_on(use: Use, limit: Limit) -> None:
    assert (NEAR_THE_LIMIT, FEW_ACTIVE) == (60, 60)
    assert limit_of(use) is limit


def test_memory_is_never_used_more_than_it_can_be() -> None:
    (device,) = gpu_use(Analysis(sampled((100, 1_000, "k", (99, 10, 5, 80, 70)))))
    assert device.kernels[0].memory == device.kernels[0].reached == 100


@pytest.mark.parametrize(("samples", "judged"), [(MIN_SAMPLES, True), (MIN_SAMPLES - 1, False)])
def test_a_kernel_is_judged_from_some_samples_on(samples: int, judged: bool) -> None:
    """Of the samples inside a kernel the first and the last do not count: their interval may begin or end outside."""
    assert MIN_SAMPLES == 5
    trace = sampled((100, 100 + EVERY_US * (samples + 1), "k", BUSY), (1_000, 1_500, "long", BUSY))
    (device,) = gpu_use(Analysis(trace))
    assert ("k" in {trace.strings[each.name] for each in device.kernels}) is judged


def test_samples_in_which_another_kernel_ran_count_for_none() -> None:
    trace = sampled((100, 600, "k", BUSY), (600, 605, "other", BUSY), (605, 1_000, "k", (99, 90, 5, 5, 5)))
    overlapped = sampled((100, 1_000, "k", BUSY), (300, 800, "beside", (99, 90, 5, 5, 5)))
    (device,) = gpu_use(Analysis(trace))
    (k,) = device.kernels
    assert k.samples == (600 - 100) // EVERY_US - 1 + (1_000 - 610) // EVERY_US - 1
    (device,) = gpu_use(Analysis(overlapped))
    (k,) = device.kernels
    assert k.tensor == pytest.approx(90)
    assert k.samples < 40


def test_the_limit_of_most_time_is_the_title_and_each_has_its_kernel() -> None:
    trace = sampled((100, 800, "gemm", BUSY), (800, 1_100, "copy", (99, 20, 0, 50, 40)))
    (finding,) = told(trace)
    assert finding.title == "Tensor cores are the limit: 70 % of the sampled kernels' time"
    assert finding.explanation == (
        "Metrics were sampled every 10.0 us. Kernels that take 100 % of the kernels' time ran long enough to be "
        "judged. Of their time, 70 % is limited by tensor cores (gemm: 90 % used) and 30 % is limited by memory "
        "bandwidth (copy: 90 % used)."
    )
    assert len(finding.advice) == 2


@pytest.mark.parametrize(("short_us", "mentioned"), [(110, True), (90, False)])
def test_a_limit_of_little_time_is_not_told(short_us: float, mentioned: bool) -> None:
    assert MIN_LIMIT == 0.05
    trace = sampled(
        (0, 1_890, "gemm", BUSY), (1_890, 1_890 + short_us, "copy", (99, 20, 0, 50, 40)), until=2_200
    )
    (finding,) = told(trace)
    assert ("memory bandwidth" in finding.explanation) is mentioned


@pytest.mark.parametrize(("long_us", "speaks"), [(230, True), (200, False)])
def test_nothing_is_said_where_hardly_any_kernel_can_be_judged(long_us: float, speaks: bool) -> None:
    assert MIN_TOLD == 0.1
    short = [(500 + 20 * each, 519 + 20 * each, f"short {each}", BUSY) for each in range(104)]
    trace = sampled((100, 100 + long_us, "long", BUSY), *short, until=3_000)
    assert bool(told(trace)) is speaks


def test_metrics_of_which_one_is_missing_are_not_judged() -> None:
    names = (*NAMES[:-1], "PCIe RX throughput")
    trace = sampled((100, 1_000, "k", BUSY), names=names)
    assert not told(trace)
    assert diagnose(trace).skipped["sampled-metrics"] == "no GPU metrics were sampled"


@pytest.mark.parametrize(
    "names",
    [("SM Active", "SM Issue", "Tensor Active", "DRAM Read Throughput", "DRAM Write Throughput"), NAMES],
)
def test_the_names_of_all_releases_are_known(names: tuple[str, ...]) -> None:
    assert told(sampled((100, 1_000, "k", BUSY), names=names))


def test_a_recording_of_an_h200_tells_products_from_copies(shared_data: Path) -> None:
    trace = open_trace([shared_data / "nsys" / "healthy_loader.sqlite"])
    (finding,) = told(trace)
    assert finding.title == "Tensor cores are the limit: 79 % of the sampled kernels' time"
    assert "12 % is limited by issuing instructions (CatArrayBatchedCopy: 70 % used)" in finding.explanation
