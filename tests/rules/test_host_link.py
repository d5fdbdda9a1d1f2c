"""Copies are compared with the link between host and GPU, and called slow where nothing excuses it."""

from __future__ import annotations

import pytest

from parsers.model import CopyKind
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.copies import copies_of
from rules.catalog.copies import link_use
from rules.kernels.gpu_peaks import LINKS, known_gpus, peaks_of
from tests.rules.builder import TinyTrace, steps


def copying(
    rate: float, *, gpu: str = "NVIDIA H200", direction: str = "HtoD", pageable: bool = False
) -> Finding:
    """The finding about one 300 us copy a step at ``rate`` GB/s, alone on the GPU."""

    def body(trace: TinyTrace, index: int) -> None:
        size = round(300_000 * rate)
        trace.copy(5, 305, direction, 2, pageable=pageable, bytes=size)
        trace.operation(305, 1000, "gemm", 100)

    found = diagnose(steps(3, 1000, body, into=TinyTrace(gpu=gpu)).build()).findings
    return next(each for each in found if each.category.value.startswith("copy-"))


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
@pytest.mark.parametrize(("rate", "slow"), [(31.0, True), (32.0, False)])
def test_pinned_memory_at_less_than_half_of_the_link_is_slow(rate: float, slow: bool, direction: str) -> None:
    finding = copying(rate, direction=direction)
    assert ("slow for pinned memory" in finding.explanation) is slow
    assert any("nvidia-smi topo -m" in advice for advice in finding.advice) is slow
    assert f"{rate / 63:.0%}".replace("%", " %") in finding.explanation


def test_pageable_memory_explains_itself() -> None:
    finding = copying(7.0, pageable=True)
    assert (
        "Copies above 1 MB reach 11 % of the 63.0 GB/s that the GPU's link (PCIe 5 x16) can carry."
        in finding.explanation
    )
    assert not any("nvidia-smi" in advice for advice in finding.advice)


def test_an_older_gpu_has_a_slower_link() -> None:
    assert "slow for pinned memory" not in copying(20.0, gpu="NVIDIA A100-SXM4-80GB").explanation
    assert "slow for pinned memory" in copying(20.0).explanation


def test_nothing_is_said_about_the_link_of_an_unknown_gpu() -> None:
    assert "link" not in copying(7.0, gpu="Some GPU").explanation


@pytest.mark.parametrize(("rate", "said"), [(15.75, True), (15.8, False)])
def test_copies_faster_than_the_link_took_another(rate: float, said: bool) -> None:
    """Some servers join their CPUs to these GPUs by NVLink."""
    assert ("PCIe 3 x16" in copying(rate, gpu="Tesla V100-SXM2-16GB").explanation) is said


@pytest.mark.parametrize(("bytes_", "counted"), [(999_999, False), (1_000_000, True)])
def test_small_copies_say_nothing_about_the_link(bytes_: int, counted: bool) -> None:
    trace = TinyTrace(gpu="NVIDIA H200")
    trace.copy(5, 305, "HtoD", 2, bytes=bytes_)
    built = trace.build()
    assert (link_use(built, copies_of(Analysis(built), 0, CopyKind.H2D)) is not None) is counted


def test_the_table_names_links_that_have_a_rate() -> None:
    links = [peaks.link for _, peaks in known_gpus()]
    assert {link for link in links if link} == set(LINKS)
    grace = peaks_of("NVIDIA GH200 480GB")
    assert grace is not None
    assert grace.link_bandwidth == 450e9


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (17.5, " and is several times slower than from pinned memory."),  # of 63 GB/s
        (17.8, " and is clearly slower than from pinned memory."),
        (31.0, " and is clearly slower than from pinned memory."),
        (32.0, "."),
    ],
)
def test_pageable_memory_is_called_as_slow_as_it_is(rate: float, said: str) -> None:
    assert f"which blocks the CPU{said} Other work" in copying(rate, pageable=True).explanation


def test_how_much_slower_pageable_memory_is_is_not_told_of_an_unknown_link() -> None:
    assert (
        "is usually slower than from pinned memory."
        in copying(7.0, gpu="Some GPU", pageable=True).explanation
    )


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
@pytest.mark.parametrize("pageable", [True, False])
def test_only_memory_that_is_not_pinned_yet_is_to_be_pinned(pageable: bool, direction: str) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.copy(5, 305, direction, 2, pageable=pageable)
        trace.operation(305, 1000, "gemm", 100)

    for language in ("native", "Python"):
        trace = TinyTrace()
        if language == "Python":
            trace.op(0, 1, "aten::mm")
        found = diagnose(steps(3, 1000, body, into=trace).build()).findings
        copies = next(each for each in found if each.category.value.startswith("copy-"))
        assert any("pin" in advice.lower() for advice in copies.advice) is pageable


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
@pytest.mark.parametrize(("call_us", "asynchronous"), [(3, True), (303, False)])
@pytest.mark.parametrize("language", ["native", "Python"])
def test_only_copies_that_the_cpu_waits_for_are_to_be_made_asynchronous(
    language: str, call_us: float, asynchronous: bool, direction: str
) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.copy(5, 305, direction, 2, launch_us=call_us)
        trace.operation(305, 1000, "gemm", 310 if call_us > 3 else 100)

    trace = TinyTrace()
    if language == "Python":
        trace.op(0, 1, "aten::mm")
    found = diagnose(steps(3, 1000, body, into=trace).build()).findings
    copies = next(each for each in found if each.category.value.startswith("copy-"))
    text = " ".join(copies.advice)
    assert ("already asynchronous" in text) is asynchronous
    assert ("non_blocking=True" in text or "cudaMemcpyAsync" in text) is not asynchronous


@pytest.mark.parametrize(("computing_us", "hidden"), [(35, True), (25, False)])
def test_asynchronous_copies_are_hidden_only_behind_enough_work(computing_us: float, hidden: bool) -> None:
    def body(trace: TinyTrace, index: int) -> None:
        trace.copy(5, 305, "HtoD", 2, launch_us=3)
        trace.operation(305, 305 + computing_us, "gemm", 100)

    found = diagnose(steps(3, 1000, body).build()).findings
    copies = next(each for each in found if each.category.value.startswith("copy-"))
    assert ("issue them earlier" in " ".join(copies.advice)) is hidden
    assert ("too little to hide them" in " ".join(copies.advice)) is not hidden
