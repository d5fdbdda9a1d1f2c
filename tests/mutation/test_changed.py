"""A changed constant is another number wherever it is known; each constant is read by somebody."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from parsers.smi.clock import _LATEST_NS
from tests.mutation.changed import change_of
from tests.mutation.constants import REPOSITORY, Constant, constants, made_of_it_as_loaded, read_by


@pytest.fixture(scope="session")
def known() -> dict[tuple[str, str], Constant]:
    return {(each.file, each.name): each for each in constants()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "name", "asked", "told"),
    [
        ("rules/terms/__init__.py", "MIN_SHARE", "rules.terms.DEFAULTS[MIN_SHARE]", 0.02),
        ("rules/losses/cpu_loops.py", "MIN_TIMES", "rules.catalog.cpu_many_operators.MIN_TIMES", 32),
        ("parsers/model/units.py", "NS_PER_S", "parsers.smi.clock._LATEST_NS", 2 * _LATEST_NS),
    ],
    ids=["a threshold has another default", "importers know the change", "what is made of it follows"],
)
def test_a_changed_constant_is_another_number_wherever_it_is_known(
    known: dict[tuple[str, str], Constant], file: str, name: str, asked: str, told: float
) -> None:
    constant = known[file, name]
    module = asked.rpartition(".")[0]
    code = f"import tests.mutation.changed; import {module}; from {module} import {name}; print({asked})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=os.environ | change_of(constant, 2 * constant.value),
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(told)


@pytest.mark.parametrize(
    ("value", "changes"),
    [(3, (4, 2)), (4, (5, 3)), (5, (10, 2)), (0.5, (1.0, 0.25)), (1_000_000, (2_000_000, 500_000))],
)
def test_small_counts_are_changed_by_one_and_all_else_by_a_factor(
    value: float, changes: tuple[float, float]
) -> None:
    assert Constant("x.py", "X", 1, value).changes() == changes


@pytest.mark.thorough
def test_what_decides_nothing_is_left_out(known: dict[tuple[str, str], Constant]) -> None:
    assert ("rules/replay/spans.py", "STARTS_AT_ONCE_NS") in known
    assert ("rules/analysis/idle/pieces.py", "PIECES_AT_ONCE") not in known
    assert ("rules/replay/waits.py", "NONE") not in known
    assert ("parsers/model/threads.py", "_WORTH_THREADS") not in known
    assert ("parsers/nsys/conversion.py", "_POLL_S") not in known
    assert ("rules/losses/cpu_work.py", "MAX_NAMED") not in known
    assert ("parsers/model/builder.py", "MAX_NAME_LENGTH") in known


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "name", "is_kept"),
    [
        ("parsers/model/units.py", "NS_PER_S", True),
        ("parsers/files/unpacking_limit.py", "MAX_WHOLE_BYTES", True),
        ("rules/causes.py", "IN_PART", False),
        ("rules/losses/cpu_work.py", "MIN_SHARE", False),
    ],
    ids=["another constant", "a default", "read by functions", "a sentence of a class"],
)
def test_what_is_kept_of_a_constant_as_a_module_is_loaded_needs_a_process(
    known: dict[tuple[str, str], Constant], file: str, name: str, is_kept: bool
) -> None:
    assert made_of_it_as_loaded(known[file, name]) is is_kept


@pytest.mark.thorough
def test_a_function_that_reads_a_constant_is_known_by_its_name(
    known: dict[tuple[str, str], Constant],
) -> None:
    readers = read_by(known["parsers/files/unpacking_limit.py", "MAX_RATIO"])
    assert ("parsers/files/unpacking_limit.py", "UnpackingLimit.__init__") in readers


@pytest.mark.thorough
def test_every_constant_is_read_by_somebody(known: dict[tuple[str, str], Constant]) -> None:
    assert [str(each) for each in known.values() if not read_by(each)] == []
