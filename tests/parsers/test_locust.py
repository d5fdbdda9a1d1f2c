"""What Locust saves of a load test: its statistics, and how it went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Malformed, ResultTable, UnknownFormat

# The cases lie on either side of this.
MOST = 0.5

STATISTICS = (
    "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,"
    "Max Response Time,Average Content Size,Requests/s,Failures/s,50%,66%,75%,80%,90%,95%,98%,99%,99.9%,99.99%,100%\n"
)
HISTORY = (
    "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,66%,75%,80%,90%,95%,98%,99%,99.9%,99.99%,100%,"
    "Total Request Count,Total Failure Count,Total Median Response Time,Total Average Response Time,"
    "Total Min Response Time,Total Max Response Time,Total Average Content Size\n"
)


def row(kind: str, name: str, count: int, mean: float, *, failed: int = 0) -> str:
    return (
        f"{kind},{name},{count},{failed},20,{mean},1.0,90.5,7.0,4.0,0.0,20,21,22,23,30,40,50,60,70,80,90.5\n"
    )


def second(at: int, users: int, count: int, half: str = "20", rate: float = 9.0) -> str:
    return f"{at},{users},,Aggregated,{rate},0.0,{half}{',30' * 10},{count},2,25,50.5,1.0,90.5,7.0\n"


def table_of(folder: Path, text: str) -> ResultTable:
    path = folder / "test_stats.csv"
    path.write_text(text)
    (table,) = open_trace([path]).tables
    return table


@pytest.mark.parametrize(("chat_ms", "told"), [(50.0, True), (49.9, False)])
def test_the_address_that_takes_most_of_the_time_is_told(tmp_path: Path, chat_ms: float, told: bool) -> None:
    rows = row("GET", "/health", 80, 1.0) + row("POST", "/chat", 10, chat_ms) + row("", "Aggregated", 100, 10)
    table = table_of(tmp_path, STATISTICS + rows)
    title = (
        "Load test by Locust: 100 requests, 4.00 a second, 10.0 ms each on average, 20.0 ms for half of them"
    )
    assert table.title == title + ("; 50 % of the time goes to POST /chat" if told else "")
    assert table.column("Request") == ("POST /chat", "GET /health", "Aggregated")
    assert table.column("99%") == (60.0, 60.0, 60.0)
    assert [column.unit for column in table.columns][:5] == ["", "", "", "", "ms"]


def test_failures_are_told_and_a_single_address_is_not(tmp_path: Path) -> None:
    rows = row("POST", "/chat", 10, 50, failed=3) + row("", "Aggregated", 10, 50, failed=3)
    title = table_of(tmp_path, STATISTICS + rows).title
    assert title.startswith("Load test by Locust: 3 of 10 requests failed, 4.00 a second, 50.0 ms each")
    assert "of the time" not in title


def test_statistics_without_a_sum_are_shown(tmp_path: Path) -> None:
    assert table_of(tmp_path, STATISTICS + row("POST", "/chat", 10, 50)).title == "Load test by Locust"


def test_a_history_tells_the_rate_of_the_whole_test(tmp_path: Path) -> None:
    """Locust's own rate is that of the last seconds."""
    first = second(1_700_000_000, 0, 0, half="N/A", rate=0.0)
    table = table_of(tmp_path, HISTORY + first + second(1_700_000_010, 8, 40) + second(1_700_000_020, 4, 200))
    assert table.title == (
        "Load test by Locust: 2 of 200 requests failed, 10.0 a second, 50.5 ms each on average, 25.0 ms for half of "
        "them; at most 8 users at once, for 20.0 s"
    )
    assert table.column("time") == (10.0, 20.0)
    assert table.column("Requests/s") == (9.0, 9.0)


def test_a_history_of_one_moment_has_no_rate(tmp_path: Path) -> None:
    assert "a second" not in table_of(tmp_path, HISTORY + second(1_700_000_000, 8, 40)).title


@pytest.mark.parametrize(
    "text", [STATISTICS, HISTORY, HISTORY + second(5, 0, 0), STATISTICS + "POST,/chat\n"]
)
def test_tables_without_results_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Malformed):
        table_of(tmp_path, text)


def test_other_tables_are_not_locusts(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        table_of(tmp_path, "Type,Name,Requests/s\nGET,/,5\n")


def test_cells_that_are_no_numbers_are_empty(tmp_path: Path) -> None:
    broken = row("GET", "/", 5, 1.0).replace(",20,", ",N/A,", 2)
    assert table_of(tmp_path, STATISTICS + broken).column("50%") == (None,)
