"""What a serving engine did, as lines for a terminal and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import Any

from parsers.model import Trace
from parsers.model.units import duration, how_many, percent, three_digits
from rules.analysis.inference.engine_costs import BetweenSteps, CacheTraffic, EngineCosts, HostSampling
from rules.analysis.inference.requests import RequestSource
from rules.analysis.inference.serving import Percentiles, Serving, serving_of
from rules.analysis.names.serving_steps import StepKind
from viewer.reports.rendering.blocks import Table
from viewer.reports.rendering.terminal_report import table_lines, wrapped

_MAX_BATCHES = 8
_BY = {RequestSource.LOG: "by their log", RequestSource.RANGES: "by their ranges and the engine's steps"}


def serving_json(trace: Trace) -> dict[str, Any]:
    """The object "inference"; nothing for a recording of anything else."""
    serving = serving_of(trace)
    if serving is None:
        return {}
    return {
        "inference": {
            **{
                f"{kind.name.lower()}_steps": None if serving.steps is None else serving.steps[kind]
                for kind in StepKind
            },
            "step_ns": {kind.name.lower(): _plain(told) for kind, told in serving.step_ns.items()},
            "requests": serving.requests,
            "requests_from": serving.source.value if serving.source else None,
            "tokens_per_s": serving.tokens_per_s,
            "prompt_tokens_per_s": serving.prompt_tokens_per_s,
            "ttft_ns": _plain(serving.ttft_ns),
            "tpot_ns": _plain(serving.tpot_ns),
            "decode_ns_by_batch": {str(batch): ns for batch, ns in serving.decode_ns_by_batch.items()}
            or None,
            "decode_plateau_batch": serving.plateau,
            "between_steps": _costs(serving.costs.between),
            "host_sampling": _costs(serving.costs.sampling),
            "kv_cache": _costs(serving.costs.cache),
        }
    }


def serving_text(trace: Trace) -> list[str]:
    """Steps, throughput, latencies and the time of a decode step by its batch size."""
    serving = serving_of(trace)
    if serving is None:
        return []
    counts = {kind.name.lower(): count for kind, count in (serving.steps or {}).items() if count}
    said = [_counted(counts)] if counts else []
    if serving.requests is not None and serving.source is not None:
        said.append(f"{serving.requests} requests {_BY[serving.source]}")
    if serving.other_logs:
        said.append(said_of_logs(serving))
    if serving.tokens_per_s is not None:
        said.append(f"{three_digits(serving.tokens_per_s)} tokens/s out")
    if serving.prompt_tokens_per_s is not None:
        said.append(f"{three_digits(serving.prompt_tokens_per_s)} tokens/s of prompts in prefill")
    lines = wrapped(f"Inference: {'; '.join(said)}.", "", "  ")
    told = {
        "time to first token": serving.ttft_ns,
        "time per output token": serving.tpot_ns,
        **{f"{kind.name.lower()} step": each for kind, each in serving.step_ns.items()},
    }
    if shown := {name: each for name, each in told.items() if each is not None}:
        rows = [
            (name, *(duration(round(ns)) for ns in (each.p50, each.p90, each.p99)))
            for name, each in shown.items()
        ]
        lines += table_lines(Table("", ("", "p50", "p90", "p99"), rows))[:-1]
    costs = (wrapped(sentence, "  ", "    ") for sentence in cost_lines(serving.costs))
    return [*lines, *_batches(serving), *chain.from_iterable(costs), ""]


def said_of_logs(serving: Serving) -> str:
    """Which of several request logs is spoken of, or why none is."""
    others = " and ".join(serving.other_logs)
    if serving.log:
        return f"{serving.log} fits the engine's steps, {others} does not"
    return f"it is not known which of {others} belongs to these steps: open the one that does"


def cost_lines(costs: EngineCosts) -> list[str]:
    """A sentence each for the time between steps, sampling on the host and the KV cache."""
    lines = []
    if (between := costs.between) is not None:
        queue = "empty" if between.queue_is_empty else "not empty"
        lines.append(
            f"Between engine steps: {percent(between.share)} of the time, {duration(between.ns)}; the GPU idles "
            f"{percent(between.gpu_idle_ns / between.ns)} of it, so its queue is {queue}."
        )
    if (sampling := costs.sampling) is not None:
        ranges = how_many(sampling.count, "range")
        lines.append(
            f"Sampling on the host: {percent(sampling.share)} of the steps' time, {duration(sampling.ns)} in "
            f"{ranges}; the GPU idles {percent(sampling.gpu_idle_ns / sampling.ns)} of it."
        )
    if (cache := costs.cache) is not None:
        what = "KV cache" if cache.by_name else "Indexed reads and writes, as of a KV cache"
        kernels = how_many(cache.count, "kernel")
        lines.append(
            f"{what}: {percent(cache.share)} of the kernels' time, {duration(cache.ns)} in {kernels}."
        )
    return lines


def _batches(serving: Serving) -> list[str]:
    """Median time and throughput of some batch sizes, the smallest and the largest among them."""
    sizes = sorted(serving.decode_ns_by_batch)
    if len(sizes) < 2:
        return []
    shown = sorted(
        {sizes[round(index * (len(sizes) - 1) / (_MAX_BATCHES - 1))] for index in range(_MAX_BATCHES)}
    )
    took = [(size, serving.decode_ns_by_batch[size]) for size in shown]
    rows = [
        (str(size), duration(round(ns)), three_digits(size / ns * 1e9) if ns > 0 else "-")
        for size, ns in took
    ]
    lines = table_lines(Table("", ("decode by batch size", "median", "tokens/s"), rows, prose=()))[:-1]
    if serving.plateau is not None:
        lines.append(
            f"  From a batch of {serving.plateau} on, larger batches hardly decode more tokens a second."
        )
    return lines


def _costs(told: BetweenSteps | HostSampling | CacheTraffic | None) -> dict[str, float | bool] | None:
    return None if told is None else asdict(told)


def _plain(told: Percentiles | None) -> dict[str, float] | None:
    return None if told is None else {"p50": told.p50, "p90": told.p90, "p99": told.p99}


def _counted(steps: dict[str, int]) -> str:
    """ "51 prefill and 91 decode steps", "1 prefill step and 3 decode steps"."""
    if 1 not in steps.values():
        return " and ".join(f"{count} {kind}" for kind, count in steps.items()) + " steps"
    return " and ".join(f"{count} {kind} step{'s' if count != 1 else ''}" for kind, count in steps.items())
