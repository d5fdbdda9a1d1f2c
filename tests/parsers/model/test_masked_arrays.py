"""Numpy's masked arrays are loaded when somebody wants one, and then numpy knows them as always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_QUESTIONS = """
import numpy as np
assert np.unique(np.array([3, 1, 1])).tolist() == [1, 3]
assert np.isnan(np.median(np.array([3.0, 1.0, np.nan])))
"""
_DIAGNOSIS = """
from pathlib import Path
from parsers import open_trace
from rules import diagnose
assert diagnose(open_trace([Path({path!r})], keep=False)).findings
"""
_MASKED = """
import numpy as np
from numpy import ma
masked = ma.masked_array([1, 1, 2], [False, False, True])
assert np.ma.is_masked(masked) and ma.is_masked(masked) and np.ma.isMaskedArray(masked)
assert np.unique(masked).tolist() == [1, None]
"""


def loaded_after(code: str) -> bool:
    """Whether a process of its own has loaded them in the end."""
    program = f"import sys\nfrom parsers.model import arrays\n{code}\nprint('numpy.ma.core' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()[-1] == "True"


def test_a_diagnosis_does_without_them(repository: Path) -> None:
    path = repository / "resources" / "samples" / "elementwise_chain.pt.trace.json.gz"
    assert not loaded_after(_DIAGNOSIS.format(path=str(path)))


@pytest.mark.parametrize(("code", "wanted"), [(_QUESTIONS, False), (_MASKED, True)])
def test_they_are_loaded_where_one_is_made(code: str, wanted: bool) -> None:
    assert loaded_after(code) is wanted
