"""What a question may cost: time, memory and the length of its answer, whatever the database is doing; as processes."""

from __future__ import annotations

import csv
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from parsers import helper_process
from parsers.helper_process import HelperProcess
from parsers.model import Cancelled, Progress
from tests.examples import one_of
from viewer.cli import main
from viewer.commands.query import rows
from viewer.loading import recording_process
from viewer.loading.questions import all_rows, first_rows, how_many
from viewer.loading.recording_process import AskedRecording
from viewer.query.errors import MemoryReached, QueryError, TimeReached
from viewer.query.limits import MAX_MEMORY, MAX_SECONDS, Limits, resident_bytes
from viewer.query.result import unpacked

pytestmark = pytest.mark.timeout(600)  # each starts a process or more
FOR_EVER = "SELECT sum(a.range * b.range) FROM range(3000000) a, range(3000000) b"
TOO_MUCH = [
    "SELECT repeat('x', 3000000000)",
    pytest.param("SELECT list_sum(range(1000000000))", marks=pytest.mark.thorough),
    pytest.param("SELECT unnest(range(1000000000))", marks=pytest.mark.thorough),
    pytest.param("SELECT * FROM repeat_row(1, num_rows=1000000000)", marks=pytest.mark.thorough),
    pytest.param("SELECT list(range) FROM range(1000000000)", marks=pytest.mark.thorough),
]
ENDLESS = [
    FOR_EVER,
    "WITH RECURSIVE t AS (SELECT 1 n UNION SELECT (n + 1) % 1000000007 FROM t) SELECT max(n) FROM t",
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7",
    "SELECT sleep_ms(100000000)",
]
LIMITS = ("--memory-limit", "200MB", "--time-limit", "60")


@pytest.fixture
def run(fixtures: Path) -> Path:
    """A recording of one kernel."""
    return fixtures / "rocm/rocprofv3.json"


@pytest.fixture
def asked(run: Path) -> AskedRecording:
    """The same, held by a process of small limits."""
    return AskedRecording([[run]], Limits(20.0, 200_000_000))


@pytest.fixture(scope="session")
def one() -> Iterator[AskedRecording]:
    """One process for all questions that do it no harm."""
    file = Path(__file__).resolve().parent.parent / "fixtures/rocm/rocprofv3.json"
    asked = AskedRecording([[file]])
    yield asked
    asked.close()


def command(repository: Path, run: Path, sql: str, *options: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "viewer", "query", str(run), sql, *options]
    return subprocess.Popen(words, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def helpers_of(process: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *helpers_of(child)]
    return found


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def until_dead(processes: list[int], patience_s: float = 30.0) -> None:
    deadline = time.monotonic() + patience_s
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline, [each for each in processes if is_alive(each)]
        time.sleep(0.02)


def until(condition: threading.Event | object, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("sql", TOO_MUCH)
def test_a_question_gets_no_more_memory_than_it_may_use(asked: AskedRecording, sql: str) -> None:
    with pytest.raises(MemoryReached, match="200 MB") as reached:
        asked.answer(first_rows, Progress(), sql=sql)
    assert reached.value.option == "--memory-limit"
    asked.close()


@pytest.mark.parametrize("endless", one_of(2, [ENDLESS[1:3], ENDLESS[::3]]), ids=len)
def test_a_question_gets_no_more_time_than_it_may_take(run: Path, endless: list[str]) -> None:
    asked = AskedRecording([[run]], Limits(0.2, MAX_MEMORY))
    for sql in endless:
        with pytest.raises(TimeReached, match=r"0\.2 s") as reached:
            asked.answer(first_rows, Progress(), sql=sql)
        assert reached.value.option == "--time-limit"
    assert json.loads(asked.answer(how_many, Progress(), name="cuda_gpu_kern_sum"))["rows"] == 1
    asked.close()
    assert asked.resident == 0


@pytest.mark.thorough
def test_what_stays_within_the_limits_is_answered(asked: AskedRecording, run: Path) -> None:
    wide = "SELECT length(repeat('x', 60000000)) AS n"
    assert unpacked(asked.answer(first_rows, Progress(), sql=wide)).frame["n"].tolist() == [60_000_000]
    asked.close()
    narrow = AskedRecording([[run]], Limits(20.0, 20_000_000))
    with pytest.raises(MemoryReached, match="20"):
        narrow.answer(first_rows, Progress(), sql=wide)
    narrow.close()


@pytest.mark.thorough
def test_a_question_that_takes_less_than_it_may_is_answered(run: Path) -> None:
    asked = AskedRecording([[run]], Limits(2.0, MAX_MEMORY))
    assert asked.answer(first_rows, Progress(), sql="SELECT sleep_ms(300)")
    with pytest.raises(TimeReached, match="the limit of 2 s"):
        asked.answer(first_rows, Progress(), sql="SELECT sleep_ms(60000)")
    asked.close()


@pytest.mark.thorough
def test_what_one_question_used_is_no_room_for_the_next(asked: AskedRecording) -> None:
    for _ in range(3):
        many = unpacked(
            asked.answer(first_rows, Progress(), sql="SELECT count(DISTINCT range) n FROM range(300000)")
        )
        assert many.frame["n"].tolist() == [300_000]
    with pytest.raises(MemoryReached):
        asked.answer(first_rows, Progress(), sql="SELECT list(range) FROM range(60000000)")
    asked.close()


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the asker alone watches")
def test_where_the_system_does_not_count_the_asker_watches(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = helper_process.CODE.split("importlib.import_module", 1)
    without = "import resource; resource.setrlimit = lambda *_: None\n"
    monkeypatch.setattr(helper_process, "CODE", f"{first}{without}importlib.import_module{last}")
    asked = AskedRecording([[run]], Limits(60.0, 300_000_000))
    most, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            most[0] = max(most[0], asked.resident)

    threading.Thread(target=watch, daemon=True).start()
    with pytest.raises(MemoryReached, match="300 MB"):
        asked.answer(
            all_rows, Progress(), sql="SELECT * FROM repeat_row(1, num_rows=1000000000)", ending=".csv"
        )
    done.set()
    assert 300_000_000 < most[0] < 2_000_000_000
    asked.close()


def test_the_limits_are_those_that_the_documentation_states(repository: Path) -> None:
    assert (Limits().seconds, Limits().memory) == (MAX_SECONDS, MAX_MEMORY) == (30.0, 1_000_000_000)
    text = " ".join((repository / "docs/query.md").read_text("utf-8").split())
    assert f"{MAX_SECONDS:g} s" in text
    assert "1 GB" in text


def test_the_command_says_the_limit_and_the_option_that_raises_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for sql, options, limit in (
        (
            TOO_MUCH[0],
            LIMITS,
            "200 MB that a question may use. Narrow it, or raise the limit with --memory-limit.",
        ),
        (
            FOR_EVER,
            ("--time-limit", "0.5"),
            "limit of 0.5 s for a question. Narrow it, or raise the limit with --time-limit.",
        ),
    ):
        assert main(["query", str(run), sql, *options]) == 2
        told = capsys.readouterr()
        assert limit in told.err
        assert (told.out, told.err.count("\n")) == ("", 1)
    for wrong in ("--time-limit=0", "--time-limit=x", "--memory-limit=1kB", "--memory-limit=x"):
        with pytest.raises(SystemExit):
            main(["query", str(run), "SELECT 1", wrong])


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
@pytest.mark.parametrize("number", one_of(3, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_a_command_that_is_ended_leaves_no_process_and_no_file(
    repository: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    asking = command(repository, run, FOR_EVER, "--time-limit", "600")
    try:
        until(lambda: any(busy(each) for each in helpers_of(asking.pid)))
        helpers = helpers_of(asking.pid)
        asking.send_signal(number)
        out, _ = asking.communicate(timeout=60)
    finally:
        asking.kill()
        asking.wait()
    until_dead(helpers)
    assert out == ""
    if number == signal.SIGINT:
        assert asking.returncode == 130
        assert list(tmp_path.iterdir()) == []


def busy(process: int) -> bool:
    """Whether DuckDB works: a thread beside the first takes processor time, or it more than the program's start."""
    second = os.sysconf("SC_CLK_TCK")
    try:
        tasks = Path(f"/proc/{process}/task").iterdir()
        times = {each.name: int((each / "stat").read_text().rpartition(")")[2].split()[11]) for each in tasks}
    except OSError:
        return False
    first = times.pop(str(process), 0)
    return len(times) > 2 and (max(times.values()) > 0.3 * second or first > 2 * second)


@pytest.mark.thorough
def test_an_answer_that_nobody_takes_does_not_pile_up(run: Path) -> None:
    asked = AskedRecording([[run]])
    pieces = asked.pieces(
        all_rows, Progress(), sql="SELECT repeat('x', 100) FROM range(300000)", ending=".csv"
    )
    assert len(next(pieces)) == 1 << 20
    helper = asked._helper
    assert helper is not None
    time.sleep(1.0)
    assert helper._pieces.qsize() <= 8
    assert sum(1 for _ in pieces) > 25
    asked.close()


def test_a_question_that_can_be_interrupted_costs_no_second_reading(
    one: AskedRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_process, "_STOPS_WITHIN_S", 60.0)
    one.answer(how_many, Progress(), name="cuda_gpu_kern_sum")
    helper = one._helper
    for sql in (ENDLESS[0], ENDLESS[-1]):
        progress = Progress()
        threading.Timer(0.3, progress.cancel).start()
        with pytest.raises(Cancelled):
            one.answer(first_rows, progress, sql=sql)
    assert one._helper is helper
    assert json.loads(one.answer(how_many, Progress(), name="cuda_gpu_kern_sum"))["rows"] == 1


STUCK = """import time, viewer.query.database as database
def held(*_, **__):
    while True:
        (2).__pow__(1 << 33)
database.Database.run = held
"""


def test_one_that_does_not_listen_is_ended_within_200_ms(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = helper_process.CODE.split("importlib.import_module", 1)
    monkeypatch.setattr(helper_process, "CODE", f"{first}{STUCK}importlib.import_module{last}")
    asked = AskedRecording([[run]])
    asked.answer(how_many, Progress(), name="cuda_gpu_kern_sum")
    assert asked._helper is not None
    process = asked._helper.process
    progress = Progress()
    threading.Timer(0.5, progress.cancel).start()
    with pytest.raises(Cancelled):
        asked.answer(first_rows, progress, sql="SELECT 1")
    assert process.poll() is not None
    assert recording_process._STOPS_WITHIN_S + 2 * recording_process._LOOK_EVERY_S < 0.2
    asked.close()


def test_a_process_that_ended_is_started_again(one: AskedRecording) -> None:
    assert one.answer(how_many, Progress(), name="cuda_gpu_kern_sum")
    assert one._helper is not None
    ended = one._helper.process
    assert one.resident == resident_bytes(ended.pid) > 10_000_000
    ended.kill()
    ended.wait()
    assert one.answer(how_many, Progress(), name="cuda_gpu_kern_sum")
    assert one._helper.process is not ended


def test_what_is_wrong_with_a_question_or_a_file_is_the_same_error_as_here(
    one: AskedRecording, tmp_path: Path
) -> None:
    with pytest.raises(QueryError, match="no column strat") as wrong:
        one.answer(first_rows, Progress(), sql="SELECT strat FROM kernels")
    assert (wrong.value.word, wrong.value.place) == ("strat", 7)
    (tmp_path / "x.json").write_text("nothing")
    with pytest.raises(Exception, match=r"x\.json"):
        AskedRecording([[tmp_path / "x.json"]]).answer(first_rows, Progress(), sql="SELECT 1")


ODD = {  # in JSON, in other text
    "(SELECT list(name) FROM kernels)": (["gemm(float*)"], '["gemm(float*)"]'),
    "{'b': [1, NULL], 'c': 'x'}": ({"b": [1, None], "c": "x"}, '{"b": [1, null], "c": "x"}'),
    "MAP {'k': 1}": ({"k": 1}, '{"k": 1}'),
    "union_value(n := 2)": ({"n": 2}, '{"n": 2}'),
    "'\\x01b'::BLOB": ("\\x01b", "\\x01b"),
    "INTERVAL 3 DAY": ("3 days", "3 days"),
    "170141183460469231731687303715884105727::HUGEINT": (2**127 - 1, str(2**127 - 1)),
    "(SELECT sum(range) FROM range(10))": (45, "45"),
    "12.5::DECIMAL(9, 2)": (12.5, "12.5"),
    "'x'::ENUM('x', 'y')": ("x", "x"),
    "['x'::ENUM('x', 'y')]": (["x"], '["x"]'),
    "TIMESTAMPTZ '2020-01-02 03:04:05+00'": ("2020-01-02 03:04:05+00", "2020-01-02 03:04:05+00"),
    "'infinity'::TIMESTAMP": ("infinity", "infinity"),
    "TIME '01:02:03'": ("01:02:03", "01:02:03"),
    "'101'::BIT": ("101", "101"),
    "NULL": (None, ""),
    "'nan'::DOUBLE": (None, ""),
    "['nan'::DOUBLE]": ([None], "[null]"),
    "NULL::BIGINT": (None, ""),
    "true": (True, "True"),
}


def test_whatever_a_column_holds_is_printed(one: AskedRecording, tmp_path: Path) -> None:
    sql = f"SELECT {', '.join(f'{value} AS c{place}' for place, value in enumerate(ODD))}"
    told = json.loads(one.answer(rows, Progress(), sql=sql, form="json", most=None))
    assert told["rows"] == [[value for value, _ in ODD.values()]]
    for way in (
        one.answer(rows, Progress(), sql=sql, form="csv", most=None),
        one.answer(all_rows, Progress(), sql=sql, ending=".csv"),
    ):
        header, line = csv.reader(way.decode().splitlines())
        assert header == [f"c{place}" for place in range(len(ODD))]
        assert line == [text for _, text in ODD.values()]
    table = one.answer(rows, Progress(), sql=sql, form="table", most=None).decode().splitlines()
    assert '["gemm(float*)"]' in table[1]
    assert str(2**127 - 1) in table[1].replace(",", "")
    (tmp_path / "x.parquet").write_bytes(one.answer(all_rows, Progress(), sql=sql, ending=".parquet"))
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["c0"].tolist() == ['["gemm(float*)"]']
    shown = unpacked(one.answer(first_rows, Progress(), sql=sql)).frame
    assert shown["c1"].tolist() == ['{"b": [1, null], "c": "x"}']
    assert shown["c7"].tolist() == [45]


def test_tables_of_the_database_itself_are_printed(one: AskedRecording) -> None:
    for table in ("duckdb_settings()", "duckdb_functions()", "test_all_types()", "kernels"):
        for form in ("table", "csv", "json"):
            said = one.answer(rows, Progress(), sql=f"SELECT * FROM {table}", form=form, most=None)
            assert len(said) > 200, (table, form)


def test_a_question_tells_nothing_about_the_machine(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    asked = AskedRecording([[run.resolve()]])
    monkeypatch.chdir(tmp_path)
    for sql in (
        "SELECT * FROM duckdb_settings()",
        "SELECT current_setting('secret_directory'), current_setting('temp_directory')",
        "SELECT * FROM duckdb_databases()",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
        "'SELECT current_setting(''secret_directory'')'))",
        "SELECT * FROM query('SELECT current_setting(''secret_' || 'directory'')')",
        "SELECT * FROM duckdb_extensions()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM glob('*')",
        "SELECT getenv('HOME')",
        "SELECT TIMESTAMPTZ '2020-01-02 03:04:05+00', current_setting('TimeZone')",
    ):
        try:
            told = asked.answer(all_rows, Progress(), sql=sql, ending=".csv").decode()
        except QueryError as error:
            told = str(error)
        assert str(tmp_path) not in told
        assert ".duckdb" not in told
        assert "/root" not in told
        assert "05:45" not in told
        assert "Kathmandu" not in told
    asked.close()


@pytest.mark.thorough
def test_sorting_more_than_fits_writes_no_file(
    asked: AskedRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError):
        asked.answer(first_rows, Progress(), sql="SELECT range FROM range(100000000) ORDER BY hash(range)")
    assert list(tmp_path.iterdir()) == []
    asked.close()


# for very many, DuckDB needs a gigabyte
@pytest.mark.parametrize("brackets", [500, pytest.param(50_000, marks=pytest.mark.thorough)])
def test_a_mistake_in_a_long_question_is_said_in_short(one: AskedRecording, brackets: int) -> None:
    long = "SELECT " + "x" * 100_000, "y" * 100_000, "SELECT * FROM " + "z" * 150
    for sql in (*long, f"SELECT {'(' * brackets}"):
        with pytest.raises(QueryError) as wrong:
            one.answer(first_rows, Progress(), sql=sql)
        assert len(str(wrong.value)) < 400


def test_a_helper_hears_what_its_asker_says_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repeating.py").write_text(
        "from parsers.helper_process import later_lines\n"
        "def serve(request, answer):\n"
        "    for line in later_lines():\n"
        "        answer.write(request + b' ' + line + b'\\n'); answer.flush()\n"
    )
    monkeypatch.setattr(
        helper_process, "CODE", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{helper_process.CODE}"
    )
    helper = HelperProcess("repeating", b"so")
    for word in (b"one", b"x" * 200_000):
        helper.ask(word)
        assert helper.next(30.0) == b"so " + word + b"\n"
    with pytest.raises(queue.Empty):
        helper.next(0.05)
    helper.end()
