"""What a profiler of Python printed of waiting: for threads, for the GPU and for the user of the program."""

from __future__ import annotations

import pytest

from parsers.model import ResultColumn, ResultTable
from parsers.model.builder import TraceBuilder
from parsers.model.results import Cell, TimeOf, Totals
from parsers.table_totals import totals_of
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from tests.rules.test_printed_times import profile, told


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("_thread.lock.acquire", "threads and processes"),
        ("posix.waitpid", "threads and processes"),
        ("_winapi.WaitForMultipleObjects", "threads and processes"),
        ("time.sleep", "instead of sleeping"),
        ("_ssl._SSLSocket.read", "fetch in a thread"),
    ],
)
def test_a_function_of_python_that_waits_is_a_wait(name: str, advice: str) -> None:
    builder = TraceBuilder()
    builder.tables += [profile((name, 7.0, 7.0), ("step (a.py:1)", 2.0, 3.0))]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert str(finding.title) == f"The program waits for 70 % of its time, in {name}"
    assert advice in str(finding.remedy.advice[0])


@pytest.mark.parametrize(("waited", "is_said"), [(0.49, False), (0.51, True)])
def test_what_waits_for_the_user_of_a_window_is_no_work(waited: float, is_said: bool) -> None:
    title, account = told(profile(("_tkinter.tkapp.mainloop", 7.0, 7.0), ("step (a.py:1)", 3.0, 3.0)))
    assert title == "30 % of the program's time is in step (a.py:1)"
    assert "For 70 % of it the program waits for its user." in account
    _, account = told(profile(("builtins.input", waited, waited), ("rest", 9.0, 9.0)))
    assert ("waits for its user" in account) is is_said


@pytest.mark.parametrize(("wait", "said"), [(0.51, "45 % of its time, mostly"), (0.49, "40 % of its time,")])
def test_waits_of_one_kind_are_told_together(wait: float, said: str) -> None:
    """Those with a twentieth of the time, which are named."""
    waits = (("_thread.lock.acquire", 4.0, 4.0), ("wait (/lib/threading.py:637)", wait, wait))
    title, _ = told(profile(*waits, ("step (a.py:1)", 3.0, 3.0), ("save (a.py:9)", 3.0 - wait, 3.0)))
    assert title == f"The program waits for {said} in _thread.lock.acquire"


@pytest.mark.parametrize(
    ("cell", "is_users"),
    [
        ("<genexpr> (/tmp/ipykernel_91490/145374895.py:18)", True),
        ("run (/lib/ipykernel/ipkernel.py:775)", True),
        ("<genexpr> (/home/me/ipykernels.py:18)", False),
    ],
)
def test_the_event_loop_of_a_notebook_waits_for_its_user(cell: str, is_users: bool) -> None:
    title, account = told(profile(("select.kqueue.control", 6.0, 6.0), (cell, 4.0, 4.0)))
    assert title.startswith("40 % of the program's time is in") is is_users
    assert ("For 60 % of it the program waits for its user." in account) is is_users
    assert title == "The program waits for 60 % of its time, in select.kqueue.control" or is_users


@pytest.mark.parametrize(
    ("name", "calls", "is_gpus"),
    [
        ("torch._C.TensorBase.item", 6_999.0, True),
        ("torch._C.TensorBase.item", 7_001.0, False),  # less than 1 ms each: it only copies a value
        ("torch._C._TensorBase.cpu", 70.0, True),
        ("cupy._core.core.ndarray.get", 70.0, True),
        ("list.item", 70.0, False),
    ],
)
def test_reading_a_value_back_for_long_is_the_gpus_time(name: str, calls: float, is_gpus: bool) -> None:
    assert ("returns when the GPU is done" in advice_of(name, calls)) is is_gpus


@pytest.mark.parametrize(
    ("name", "calls", "waits"),
    [
        ("torch._C._TensorBase.to", 6_999.0, True),
        ("torch._C.TensorBase.to", 7_001.0, False),  # less than 1 ms each
        ("torch._C.TensorBase.cuda", 70.0, True),
        ("torch._C.TensorBase.topk", 70.0, False),
    ],
)
def test_moving_a_tensor_for_long_waits_or_copies_much(name: str, calls: float, waits: bool) -> None:
    assert ("Moving a tensor for this long" in advice_of(name, calls)) is waits


def advice_of(name: str, calls: float) -> str:
    """The first advice where a function takes 7 of 10 s."""
    columns = (ResultColumn("Function"), ResultColumn("Own time", "s"), ResultColumn("Calls"))
    rows = ((name, 7.0, calls), ("step (a.py:1)", 3.0, 1.0))
    builder = TraceBuilder()
    builder.tables.append(
        ResultTable("profile", columns, rows, totals=(Totals(TimeOf.PROGRAM, 0, 1, calls=2, whole=10.0),))
    )
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    return str(finding.remedy.advice[0])


@pytest.mark.parametrize("name", ["selector (a.py:3)", "lockstep", "socketless"])
def test_a_name_that_begins_like_a_wait_is_none(name: str) -> None:
    assert told(profile((name, 7.0, 7.0)))[0] == f"70 % of the program's time is in {name}"


def test_code_without_a_name_is_not_told_first() -> None:
    address = "0xffffffff81000000"
    title, account = told(profile((address, 5.0, 5.0), ("step (a.py:1)", 4.0, 4.0)))
    assert title == "40 % of the program's time is in step (a.py:1)"
    assert f"50 % in {address}" in account
    assert told(profile((address, 5.0, 5.0)))[0].endswith(f"is in {address}")


NEXT_BATCH = "__next__ (/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py:701)"


@pytest.mark.parametrize(
    ("loads", "waits", "title", "advice"),
    [
        (
            2.6,
            2.5,
            "26 % of the program's time is in the DataLoader, with what it calls",
            "let more workers load",
        ),
        (
            2.4,
            2.5,
            "The program waits for 25 % of its time, in _thread.lock.acquire",
            "threads and processes",
        ),
        (
            2.1,
            1.5,
            "21 % of the program's time is in the DataLoader, with what it calls",
            "let more workers load",
        ),
        (
            1.9,
            1.5,
            "The program waits for 15 % of its time, in _thread.lock.acquire",
            "threads and processes",
        ),
    ],
)
def test_the_loader_is_told_where_it_takes_more_than_any_function_itself(
    loads: float, waits: float, title: str, advice: str
) -> None:
    builder = TraceBuilder()
    others = ((f"f{number} (a.py:{number})", 1.0, 1.0) for number in range(5))
    builder.tables += [profile((NEXT_BATCH, 0.1, loads), ("_thread.lock.acquire", waits, waits), *others)]
    (finding,) = diagnosis_of(Analysis(builder.build())).findings
    assert str(finding.title) == title
    assert advice in str(finding.remedy.advice[0])


ROCPROF = ("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage")


def of_rocprof(*rows: tuple[str, float, float, float]) -> ResultTable:
    """Rows of rocprof: name, calls, ns, share in percent."""
    units = ("", "", "ns", "ns", "%")
    columns = tuple(ResultColumn(title, unit) for title, unit in zip(ROCPROF, units, strict=True))
    made: list[tuple[Cell, ...]] = [(name, calls, ns, ns / calls, share) for name, calls, ns, share in rows]
    return ResultTable("Summary of rocprof", columns, tuple(made), totals=totals_of(ROCPROF, made))


def test_barrier_packets_are_told_beside_the_work_of_a_gpu() -> None:
    barrier = ("<barrier packet>", 256.0, 6e9, 60.0)
    title, account = told(of_rocprof(barrier, ("gemm", 10.0, 3e9, 30.0), ("add", 5.0, 0.5e9, 5.0)))
    assert title == "75 % of the GPU's time is in gemm"  # 3 of 4 s, of which half a second was not printed
    assert account.startswith("The GPU worked for 4.00 s in all")
    assert "Not counted: 6.00 s in 256 barrier packets" in account
    title, account = told(of_rocprof(("gemm", 10.0, 3e9, 75.0), ("add", 5.0, 1e9, 25.0)))
    assert title == "75 % of the GPU's time is in gemm"
    assert "barrier" not in account
    title, account = told(of_rocprof(barrier))
    assert (title, account) == ("Results without a recording: Summary of rocprof", "")
    copies = ResultTable(
        "copies",
        (ResultColumn("Name"), ResultColumn("Time", "ns")),
        (("copy", 1e9),),
        totals=(Totals(TimeOf.GPU, 0, 1),),
    )
    _, account = told(copies, of_rocprof(barrier, ("gemm", 10.0, 4e9, 40.0)))
    assert account.startswith("The GPU worked for 5.00 s in all")
    assert "Not counted: 6.00 s in 256 barrier packets" in account
