"""A rule is loaded where it may have something to say, and what is listed of it beforehand is what it says itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

import pytest

import resources
from parsers import open_trace
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.findings import base
from rules.findings import listed as listing
from rules.findings.base import Category, Finding, Need, Rule, rules
from rules.findings.listed import listed
from tests.rules.builder import TinyTrace

SAMPLE = "samples/elementwise_chain.pt.trace.json.gz"
LOADED = f"""
import json, sys, resources
from parsers import open_trace
from rules import diagnose
diagnose(open_trace([resources.path({SAMPLE!r})], keep=False))
print(json.dumps([name.rpartition(".")[2] for name in sys.modules if name.startswith("rules.catalog.")]))
"""


def test_the_list_is_what_the_rules_say() -> None:
    assert [(each.id, each.needs) for each in listed()] == [(each.id, each.needs) for each in rules()]
    assert [each.rule() for each in listed(counters=False)] == [
        each for each in rules() if not type(each).__module__.startswith("rules.catalog.kernel_")
    ]


def test_of_a_gpu_that_works_alone_no_rule_about_ranks_memory_or_the_cpu_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {"idle_unexplained", "memory_bound_kernels"} <= loaded
    assert not loaded & {
        "ranks",
        "gpu_memory",
        "flight_recorders",
        "sampled_cpu",
        "printed_times",
        "load_tests",
    }
    assert not {name for name in loaded if name.startswith(("cpu_", "kernel_"))}


@pytest.mark.parametrize(
    "rule", [each for each in rules() if each.of_the_cpu_alone], ids=lambda each: each.id
)
def test_a_rule_about_the_cpu_alone_finds_nothing_where_a_gpu_worked(rule: Rule) -> None:
    analysis = Analysis(open_trace([resources.path(SAMPLE)], keep=False))
    assert list(rule.check(analysis)) == []
    assert rule.id in {*diagnosis_of(analysis).quiet, *diagnosis_of(analysis).skipped}


def test_a_module_that_the_index_does_not_know_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [each for each in listing._index() if each.module not in ("idle_unexplained", "kernel_atomics")]
    loaded: list[str] = []
    monkeypatch.setattr(listing, "_index", lambda: known)
    monkeypatch.setattr(listing.importlib, "import_module", loaded.append)
    found = [each.id for each in listed(counters=False)]
    assert loaded == ["rules.catalog.idle_unexplained"]
    assert "idle-unexplained" in found


def test_a_rule_that_is_registered_besides_is_checked_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Further(Rule):
        id = "further"
        category = Category.HOST_BOUND
        needs = frozenset({Need.CPU_EVENTS})

        def check(self, analysis: Analysis) -> Iterable[Finding]:
            asked.append(analysis)
            return ()

    monkeypatch.setattr(base, "_RULES", base._RULES | {"further": Further()})
    trace = TinyTrace()
    trace.op(0, 10, "aten::mm")
    assert "further" in diagnosis_of(Analysis(trace.build())).quiet
    assert len(asked) == 1
