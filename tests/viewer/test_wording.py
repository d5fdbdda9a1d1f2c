"""The verdict is the first sentence a user reads: it accuses what a rule found, and never calls idle time fine."""

from __future__ import annotations

import pytest

import resources
from parsers import open_trace
from rules import Diagnosis
from viewer.reports.wording import verdict


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [("cpu_python", "The GPU idles 88 % of the time: waiting for Python"), ("healthy", "Nothing stands out")],
)
def test_without_a_finding_idle_time_is_still_said(sample: str, sentence: str) -> None:
    trace = open_trace([resources.path(f"samples/{sample}.pt.trace.json.gz")])
    assert verdict(trace, Diagnosis()).startswith(sentence)
