"""Serving engines: prefill and decode steps, throughput and latencies, from recordings and request logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Counter, Malformed, Trace
from parsers.model.results import REQUEST_LOG, REQUEST_LOG_TITLE, ResultTable
from rules.analysis.inference.capacity import capacity_of
from rules.analysis.inference.course import course_of
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.inference.phases import Phase, held_up_ns, phases_of
from rules.analysis.inference.requests import Requests, RequestSource, requests_of
from rules.analysis.inference.serving import Percentiles, Serving, serving_of
from rules.analysis.names.serving_steps import StepKind, plain_step, sglang_step, vllm_step
from tests.opened import opened
from tests.rules.builder import TinyTrace, ns
from viewer.cli import main
from viewer.reports.serving_report import serving_text

REQUESTS = Path(__file__).parents[1] / "fixtures" / "results" / "requests.jsonl"
CLOSE = 0.01
PREFILL, DECODE = "execute_context_1({})_generation_0(0)", "execute_context_0(0)_generation_{0}({0})"


def served(trace: Trace) -> Serving:
    serving = serving_of(trace)
    assert serving is not None
    return serving


def milliseconds(told: Percentiles | None) -> list[float]:
    assert told is not None
    return [told.p50 / 1e6, told.p90 / 1e6, told.p99 / 1e6]


@pytest.mark.parametrize(
    ("recording", "log", "source"),
    [
        pytest.param(
            "pt.trace.json.gz", "engine.requests.jsonl", RequestSource.LOG, marks=pytest.mark.thorough
        ),
        ("sqlite", "engine.sqlite.requests.jsonl", RequestSource.LOG),
        ("sqlite", None, RequestSource.RANGES),
    ],
)
def test_figures_are_those_that_the_engine_counted_itself(
    recording: str, log: str | None, source: RequestSource, shared_data: Path
) -> None:
    folder = shared_data / "serve"
    if not folder.is_dir():
        pytest.skip("the recordings of the serving engine are not on this machine")
    truth = json.loads((folder / "truth.json").read_text())[recording]["recorded"]
    serving = served(opened(folder / f"engine.{recording}", *([folder / log] if log else [])))
    assert serving.steps is not None
    assert serving.source is source
    assert serving.steps[StepKind.PREFILL] == truth["prefill_steps"]
    assert serving.steps[StepKind.DECODE] == truth["decode_steps"]
    assert serving.requests == truth["requests"]
    assert serving.tokens_per_s == pytest.approx(truth["tokens_per_s"], rel=CLOSE)
    assert milliseconds(serving.ttft_ns) == pytest.approx(truth["ttft_ms"], rel=CLOSE)
    assert milliseconds(serving.tpot_ns) == pytest.approx(truth["tpot_ms"], rel=CLOSE)
    by_batch = {str(batch): ns / 1e6 for batch, ns in serving.decode_ns_by_batch.items()}
    assert by_batch == pytest.approx(truth["decode_ms_by_batch"], rel=CLOSE)
    assert serving.costs.between is not None
    assert serving.costs.between.queue_is_empty
    assert serving.costs.between.share < CLOSE
    assert serving.costs.cache is not None
    assert 0.25 < serving.costs.cache.share < 0.35


def test_a_request_log_alone_gives_latencies_and_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", str(REQUESTS)]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)["inference"]
    assert told["requests"] == 41
    assert told["prefill_steps"] is None
    assert told["decode_ns_by_batch"] is None
    assert told["ttft_ns"]["p50"] == pytest.approx(435_525_799)
    assert told["tpot_ns"]["p99"] == pytest.approx(81_251_145, rel=1e-6)
    assert told["tokens_per_s"] == pytest.approx(623.3187)


def test_lines_that_are_no_request_are_set_aside_and_the_rest_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    whole = '{"id": "a", "arrival": 1000, "first": 2000, "end": 6000, "prompt": 4, "out": 5}'
    backwards = '{"id": 2, "arrival": 9000, "first": 2000, "end": 6000, "prompt": 4, "out": 5}'
    waiting = '{"id": 3, "arrival": 3000, "first": null, "end": null, "prompt": 4, "out": 0}'
    log.write_text("\n".join([whole, "nonsense", backwards, waiting, whole[:40]]))
    trace = open_trace([log])
    assert (trace.quality.events_read, trace.quality.events_kept, trace.quality.quarantined) == (5, 2, 3)
    serving = served(trace)
    assert serving.requests == 2
    assert serving.ttft_ns == Percentiles(1000.0, 1000.0, 1000.0)
    assert serving.tpot_ns == Percentiles(1000.0, 1000.0, 1000.0)


def test_a_log_without_any_request_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": 2, "arrival": 9000, "first": 2000, "end": 6000, "out": 5}\n')
    with pytest.raises(Malformed):
        open_trace([log])


@pytest.mark.parametrize(
    ("name", "kind", "prompts", "decoded", "tokens"),
    [
        ("execute_context_2(779)_generation_0(0)", StepKind.PREFILL, 2, 0, 779),
        ("execute_model_context_0(0)_generation_7(7)", StepKind.DECODE, 0, 7, 0),
        ("execute_context_1(256)_generation_7(7)", StepKind.MIXED, 1, 7, 256),
        ("step[EXTEND bs=4 toks=512]", StepKind.PREFILL, 4, 0, 512),
        ("step[DECODE bs=32]", StepKind.DECODE, 0, 32, 0),
        ("prefill", StepKind.PREFILL, -1, 0, -1),
        ("decode_17", StepKind.DECODE, 0, -1, 0),
        ("decode bs=8 tokens=8", StepKind.DECODE, 0, 8, 0),
        ("Prefill (batch_size=2, num_tokens=900)", StepKind.PREFILL, 2, 0, 900),
    ],
)
def test_names_of_engines_tell_the_kind_and_the_batch(
    name: str, kind: StepKind, prompts: int, decoded: int, tokens: int
) -> None:
    found = vllm_step(name) or sglang_step(name) or plain_step(name)
    assert found is not None
    assert (found.kind, found.prompts, found.decoded, found.prompt_tokens) == (kind, prompts, decoded, tokens)


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_0(0)_generation_0(0)",
        "step[IDLE bs=0]",
        "decode_jpeg",
        "prefill_layer_3",
        "decoder",
        "mixed precision",
    ],
)
def test_other_names_are_no_engine_steps(name: str) -> None:
    assert vllm_step(name) is None
    assert sglang_step(name) is None
    assert plain_step(name) is None


def engine(names: list[str], taken: list[float] | None = None) -> TinyTrace:
    """Steps of 100 us one after the other, or as long as ``taken`` says."""
    tiny, now = TinyTrace(), 0.0
    for name, us in zip(names, taken or [90.0] * len(names), strict=True):
        tiny.region(now, now + us, name)
        now += us + 10
    return tiny


def test_prompts_a_second_are_told_where_all_names_tell_their_tokens() -> None:
    names = [PREFILL.format(5), DECODE.format(1), PREFILL.format(13)]
    assert served(engine(names, [50.0, 90.0, 130.0]).build()).prompt_tokens_per_s == pytest.approx(
        18 / 180e-6
    )
    assert served(engine(["prefill", "decode bs=2"]).build()).prompt_tokens_per_s is None


def test_decode_alone_is_no_engine() -> None:
    assert serving_of(engine(["decode_1", "decode_2", "decode_3"]).build()) is None


def test_plain_regions_are_told_apart_and_nested_ones_counted_once() -> None:
    tiny = engine(["prefill", "decode bs=2", "prefill", "decode bs=2"])
    tiny.region(110, 150, "decode bs=2")
    assert served(tiny.build()).steps == {StepKind.PREFILL: 2, StepKind.DECODE: 2, StepKind.MIXED: 0}


def test_each_rank_of_an_engine_takes_the_same_steps_which_are_counted_once(tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "pid": 1,
            "tid": 1,
            "ts": 100.0 * step,
            "dur": 90.0,
            "name": name,
        }
        for step, name in enumerate([PREFILL.format(5), DECODE.format(1)])
    ]
    for rank in (0, 1):
        stated = {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(stated))
    trace = open_trace([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert len(trace.ranks) == 2
    assert served(trace).steps == {StepKind.PREFILL: 1, StepKind.DECODE: 1, StepKind.MIXED: 0}


def test_ranges_of_requests_give_latencies_where_prompts_were_computed_whole() -> None:
    tiny = engine([PREFILL.format(5), PREFILL.format(9), DECODE.format(2), DECODE.format(1)])
    tiny.region(-10, 395, "request_0", thread=7)
    tiny.region(-10, 295, "request_1", thread=8)
    serving = served(tiny.build())
    assert serving.ttft_ns is not None
    assert serving.ttft_ns.p50 == pytest.approx(150_000)
    assert serving.tpot_ns is not None
    assert serving.tpot_ns.p99 < 160_000
    assert serving.tokens_per_s == pytest.approx(5 / 405e-6)


def test_ranges_say_nothing_of_latencies_where_prompts_were_computed_in_parts() -> None:
    tiny = engine([PREFILL.format(5), PREFILL.format(9), DECODE.format(1), DECODE.format(1)])
    tiny.region(-10, 395, "request_0", thread=7)
    serving = served(tiny.build())
    assert serving.requests == 1
    assert serving.ttft_ns is None
    assert serving.tpot_ns is None


@pytest.mark.parametrize(("larger_us", "plateau"), [(90.0, None), (180.0, 8)])
def test_the_plateau_is_where_twice_the_batch_gives_no_more_tokens(
    larger_us: float, plateau: int | None
) -> None:
    names = [PREFILL.format(5), *[DECODE.format(8)] * 3, *[DECODE.format(16)] * 3]
    trace = engine(names, [90.0] * 4 + [larger_us] * 3).build()
    assert served(trace).plateau == plateau
    assert any("hardly decode more tokens" in line for line in serving_text(trace)) == (plateau is not None)


@pytest.mark.parametrize(("per_request_us", "at_16"), [(10.0, 16 / 260e-6), (0.0, 16 / 100e-6)])
def test_beyond_the_batches_that_were_tried_a_band_begins_at_no_gain(
    per_request_us: float, at_16: float
) -> None:
    sizes = [size for size in (1, 2, 4, 8) for _ in range(3)]
    taken = [100.0 + per_request_us * size for size in sizes]
    steps = engine_steps(engine([PREFILL.format(5), *map(DECODE.format, sizes)], [50.0, *taken]).build())
    capacity = capacity_of(steps)
    assert capacity is not None
    assert (capacity.largest, capacity.furthest) == (8, 16)
    assert capacity.rate(16) == pytest.approx(at_16)
    assert capacity.band(16) == pytest.approx((capacity.rate(8), at_16))
    assert capacity_of(steps.where(steps.decoded != 4)) is None


def test_of_several_request_logs_the_one_that_fits_the_steps_is_told_by_its_name() -> None:
    trace = engine([PREFILL.format(5), DECODE.format(1), PREFILL.format(5), DECODE.format(1)]).build()
    steps = engine_steps(trace).of_kind(StepKind.PREFILL)

    def log(name: str, firsts: Sequence[float]) -> ResultTable:
        rows = tuple((None, first / 1e6, first / 1e6, first / 1e6, 5.0, 1.0) for first in firsts)
        return ResultTable(REQUEST_LOG_TITLE + name, REQUEST_LOG, rows)

    right, other = log("right.jsonl", steps.end.tolist()), log("other.jsonl", [0.0, 9e9, 9e9])
    both = replace(trace, tables=(other, right))
    assert (served(both).log, served(both).other_logs) == ("right.jsonl", ("other.jsonl",))
    assert "right.jsonl fits the engine's steps, other.jsonl does not" in " ".join(
        " ".join(serving_text(both)).split()
    )
    neither = replace(trace, tables=(other, log("third.jsonl", [1.0])))
    assert served(neither).requests is None
    said = "it is not known which of other.jsonl and third.jsonl belongs to these steps"
    assert said in " ".join(" ".join(serving_text(neither)).split())


def test_a_recording_of_anything_else_says_nothing_of_inference() -> None:
    trace = engine(["train_step 1", "train_step 2"]).build()
    assert serving_of(trace) is None
    assert serving_text(trace) == []


def test_time_between_steps_is_the_engines_own_while_somebody_waits_for_an_answer() -> None:
    names = [PREFILL.format(5), DECODE.format(1), DECODE.format(1)]
    tiny = engine(names, [90.0] * 3)
    tiny.operation(10, 95, "ampere_gemm", 5)
    tiny.operation(120, 150, "vllm::reshape_and_cache_flash_kernel<bf16>", 115)
    tiny.operation(150, 160, "BatchDecodeWithPagedKVCacheKernel", 116)
    tiny.region(160, 178, "gpu_model_runner: sample")
    tiny.region(0, 190, "request_0", thread=7)
    costs = served(tiny.build()).costs
    assert costs.between is not None
    assert costs.between.ns == ns(10)
    assert costs.between.gpu_idle_ns == ns(5)
    assert not costs.between.queue_is_empty
    assert costs.between.share == pytest.approx(10 / 290)
    assert costs.sampling is not None
    assert (costs.sampling.count, costs.sampling.ns, costs.sampling.gpu_idle_ns) == (1, ns(18), ns(18))
    assert costs.cache is not None
    assert (costs.cache.count, costs.cache.ns, costs.cache.by_name) == (1, ns(30), True)
    assert costs.cache.share == pytest.approx(30 / 125)


def test_a_queue_is_empty_where_the_gpu_idles_between_most_steps() -> None:
    tiny = engine([PREFILL.format(5), DECODE.format(1), DECODE.format(1)], [90.0] * 3)
    tiny.operation(10, 20, "vectorized_gather_kernel", 5)
    text = " ".join(" ".join(serving_text(tiny.build())).split())
    assert "Between engine steps: 6.9 % of the time, 20.0 us; the GPU idles 100 % of it" in text
    assert "its queue is empty" in text
    assert "Indexed reads and writes, as of a KV cache: 100 % of the kernels' time" in text


def log_of(folder: Path, epoch_ns: int, first_token: float = 92.0) -> Path:
    """Two requests of an engine of two prompts and three decode steps, by a clock that is ``epoch_ns`` at its start."""
    log = folder / "log.jsonl"
    lines = [
        {"id": 7, "arrival": -5.0, "first": first_token, "end": 490, "prompt": 5, "out": 4},
        {"id": 8, "arrival": 5, "first": 192.0, "end": 390, "prompt": 9, "out": 3},
    ]
    times = ("arrival", "first", "end")
    log.write_text(
        "\n".join(
            json.dumps(each | {key: epoch_ns + ns(float(each[key])) for key in times}) for each in lines
        )
    )
    return log


TWO_ANSWERED = [PREFILL.format(5), PREFILL.format(9), *[DECODE.format(2)] * 2, DECODE.format(1)]


def placed(trace: Trace, log: Path) -> Requests:
    """The requests of a log beside a trace."""
    table = open_trace([log]).tables[0]
    requests = requests_of(replace(trace, tables=(table,)), engine_steps(trace))
    assert requests is not None
    return requests


def test_the_clock_of_a_log_is_told_by_the_steps_that_gave_first_tokens(tmp_path: Path) -> None:
    trace = engine(TWO_ANSWERED).build()
    requests = placed(trace, log_of(tmp_path, 10**18))
    assert requests.offset_ns == ns(-7)  # the log begins 5 us before the trace, and its tokens come 2 us late
    assert [trace.name(event) for event in requests.event.tolist()] == TWO_ANSWERED[:2]


@pytest.mark.parametrize(("epoch_ns", "offset"), [(10**18, ns(-5)), (10**18 + 10**12, None)])
def test_where_steps_do_not_tell_it_both_state_the_wall_clock(
    epoch_ns: int, offset: int | None, tmp_path: Path
) -> None:
    names = [PREFILL.format(5), "execute_context_1(9)_generation_1(1)", *TWO_ANSWERED[2:]]
    trace = replace(engine(names).build(), epoch_ns=10**18)
    assert placed(trace, log_of(tmp_path, epoch_ns)).offset_ns == offset


def test_a_request_waits_is_computed_is_answered_and_is_held_up_by_the_prompts_of_others(
    tmp_path: Path,
) -> None:
    trace = engine(TWO_ANSWERED).build()
    steps, requests = engine_steps(trace), placed(trace, log_of(tmp_path, 10**18, first_token=90.0))
    found = phases_of(requests, steps, np.arange(2))
    told = [
        (int(request), Phase(int(kind)), int(start), int(end))
        for request, kind, start, end in zip(found.request, found.kind, found.start, found.end, strict=True)
    ]
    at = [(int(start), int(end)) for start, end in zip(steps.start, steps.end, strict=True)]
    late = ns(1)  # half of what the two logged tokens differ by
    assert told == [
        (0, Phase.WAITS, ns(-5) - late, 0),
        (0, Phase.PREFILL, 0, at[0][1] - late),
        (0, Phase.DECODE, at[0][1] - late, at[1][0]),
        (0, Phase.HELD_UP, *at[1]),
        (0, Phase.DECODE, at[1][1], at[4][1] - late),
        (1, Phase.WAITS, ns(5) - late, at[1][0]),
        (1, Phase.PREFILL, at[1][0], at[1][1] + late),
        (1, Phase.DECODE, at[1][1] + late, at[3][1] - late),
    ]
    assert held_up_ns(requests, steps).tolist() == [ns(90), 0]


def test_what_an_engine_did_over_time_follows_from_its_steps_and_its_requests(tmp_path: Path) -> None:
    trace = engine(
        TWO_ANSWERED
    ).build()  # steps of 90 us and 10 us between them, on a clock 7 us behind the log's
    steps = engine_steps(trace)
    course = course_of(trace, steps, placed(trace, log_of(tmp_path, 10**18)))
    assert course.batch is not None
    assert [course.batch.at(ns(us)) for us in (40, 95, 220, 320, 420, 495)] == [1, 0, 2, 2, 1, 0]
    assert course.tokens is not None
    written = np.diff(course.tokens.time) * course.tokens.value[:-1] / 1e9
    assert written.sum() == pytest.approx(steps.tokens)
    assert course.waiting is not None
    assert [course.waiting.at(ns(us)) for us in (-6, -1, 2, 50, 150)] == [1, 1, 0, 1, 0]
    assert course.cache is not None
    assert [course.cache.at(ns(us)) for us in (80, 95, 195, 495)] == [None, 6, 6 + 1 + 10, 0]
    assert course.cache.value[-1] == 0


def test_an_engines_own_counters_tell_what_names_and_logs_do_not() -> None:
    trace = engine(["prefill", "decode_1", "decode_2"]).build()
    names = (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:gpu_cache_usage_perc",
        "gen throughput",
    )
    counters = tuple(Counter(name, "", np.array([0, 5]), np.array([0.25, 0.5])) for name in names)
    course = course_of(replace(trace, counters=counters), engine_steps(trace), None)
    values = (course.batch, course.waiting, course.tokens)
    assert all(each is not None and each.value.tolist() == [0.25, 0.5] for each in values)
    assert course.cache is not None
    assert (course.cache.unit, course.cache.value.tolist()) == ("%", [25.0, 50.0])
    nothing = course_of(trace, engine_steps(trace), None)
    assert (nothing.batch, nothing.tokens, nothing.cache, nothing.waiting) == (None, None, None, None)


def test_requests_of_a_recording_of_decode_steps_alone_are_held_up_by_nothing(tmp_path: Path) -> None:
    trace = replace(engine([DECODE.format(2)] * 5).build(), epoch_ns=10**18)
    requests = placed(trace, log_of(tmp_path, 10**18))
    assert requests.offset_ns == ns(-5)
    assert held_up_ns(requests, engine_steps(trace)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("prefill", "decode", "told"),
    [
        (1, 0, "1 prefill step;"),
        (2, 1, "2 prefill steps and 1 decode step;"),
        (2, 3, "2 prefill and 3 decode steps;"),
    ],
)
def test_steps_are_counted_as_one_says_them(prefill: int, decode: int, told: str) -> None:
    trace = TinyTrace()
    for number in range(prefill + decode):
        at = number * 1000.0
        kind = "step[EXTEND bs=2 toks=64]" if number < prefill else "step[DECODE bs=2]"
        trace.region(at, at + 900, kind)
        trace.operation(at + 20, at + 880, "gemm", at + 5)
    (line, *_) = serving_text(trace.build())
    assert told in line.replace(".", ";")


@pytest.mark.parametrize(("kernel_us", "step_us"), [(800.0, 800.0), (200.0, 300.0)])
def test_a_step_that_the_engine_leaves_to_the_gpu_takes_as_long_as_the_gpu_works_on_it(
    kernel_us: float, step_us: float
) -> None:
    tiny, done = TinyTrace(), 0.0
    for number in range(6):
        begins = 300.0 * number
        tiny.region(begins, begins + 300, "execute_context_0(0)_generation_4(4)")
        start = max(done, begins + 20)
        tiny.operation(start, start + kernel_us, "void gemm", begins + 10)
        done = start + kernel_us
    steps = engine_steps(tiny.build())
    assert np.median(steps.end - steps.start) == ns(step_us)
    assert (steps.start[1:] >= steps.end[:-1]).all()
