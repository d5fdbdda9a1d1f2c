"""Logs of training programs: each family's lines, what is said of them, and texts that only look like them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import ResultTable, Trace, TraceError
from tests.examples import any_text
from viewer.cli import main

LINES = {
    "timm": "Train: 0 [{step:>4}/1251 (  4%)]  Loss: 6.9 (6.94)  Time: {s:.3f}s,  621.56/s  (0.437s,  585.87/s)  "
    "LR: 1.000e-06  Data: {data:.3f} (0.025)",
    "torchvision": "Epoch: [0]  [ {step}/5004]  eta: 0:40:12  lr: 0.1  loss: 6.9 (7.0)  "
    "time: {s:.4f}  data: {data:.4f}  max mem: 3456",
    "PyTorch's examples": "Epoch: [0][ {step}/5005]\tTime {s:.3f} ( {s:.3f})\t"
    "Data {data:.3f} ( {data:.3f})\tLoss 7.0e+00",
    "detectron2": "[d2.utils.events]:  eta: 1:02:33  iter: {step}  total_loss: 1.7  time: {s:.4f}  last_time: 0.2050  "
    "data_time: {data:.4f}  lr: 0.0001  max_mem: 2345M",
    "MMEngine": "mmengine - INFO - Epoch(train)  [1][  {step}/7330]  lr: 2.0e-02  eta: 1 day, 0:00:00  time: {s:.4f}  "
    "data_time: {data:.4f}  memory: 3456  loss: 1.2",
    "YOLOX": "2026-06-15 20:17:51.976 | INFO     | yolox.core.trainer:after_iter:246 - epoch: 1/300, iter: {step}/47, "
    "mem: 1491Mb, iter_time: {s:.3f}s, data_time: {data:.3f}s, total_loss: 10.7, lr: 7.073e-06",
    "BasicSR": "2026-06-15 05:14:38,421 INFO: [SR][epoch:  0, iter:     {step}, lr:(2.000e-04,)] "
    "[eta: 4 days, 9:57:56, time (data): {s:.3f} ({data:.3f})] l_pix: 1.7e-01",
    "Paddle": "[TRAIN] epoch: 1, iter: {step}/1000, loss: 2.0, lr: 0.01, batch_cost: {s:.4f}, reader_cost: {data:.5f}, "
    "ips: 54.2",
    "Megatron": " iteration       {step}/  500000 | consumed samples:  2560 | "
    "elapsed time per iteration (ms): {ms:.1f} | learning rate: 1e-4",
    "DeepSpeed": "steps: {step} loss: 1.2345 iter time (s): {s:.3f} samples/sec: 77.6",
    "MaxText": "completed step: {step}, seconds: {s:.3f}, TFLOP/s/device: 123.4, Tokens/s/device: 9000.0, loss: 7.1",
    "NeMo": "Epoch 0: | 10/100, v_num=0, reduced_train_loss=7.1, global_step={step}.0, train_step_timing in s={s:.3f}",
    "nanoGPT": "iter {step}: loss 2.5000, time {ms:.2f}ms, mfu 31.20%",
}


def log(sort: str, *took: float, data: float = 0.1) -> str:
    return "".join(
        LINES[sort].format(step=step, s=s, ms=s * 1e3, data=data * s) + "\n" for step, s in enumerate(took)
    )


def opened(folder: Path, text: str) -> Trace:
    (folder / "job.log").write_text(text)
    return open_trace([folder / "job.log"])


def iterations(trace: Trace) -> ResultTable:
    return next(table for table in trace.tables if table.columns[0].name == "iteration")


@pytest.mark.parametrize("sort", LINES)
def test_each_family_states_its_iterations(sort: str, tmp_path: Path) -> None:
    table = iterations(opened(tmp_path, "loading\n" + log(sort, 0.5, 0.5, 0.5, 0.5) + "saved\n"))
    assert table.title.startswith(f"Log of {sort}: an iteration takes 500 ms (median of 4)")
    assert table.column("iteration") == (0.0, 1.0, 2.0, 3.0)
    assert table.column("took") == pytest.approx([500.0] * 4)
    states_data = "data" in LINES[sort]
    assert table.column("of it waiting for data") == (
        pytest.approx([50.0] * 4) if states_data else (None,) * 4
    )
    assert ("10 % of it waiting for data" in table.title) is states_data


@pytest.mark.parametrize(
    "line",
    [
        "epoch:[  9/25 ] train step:{step}    loss: 0.116 lr: 0.06 batch_cost: 0.5 sec, reader_cost: 0.1 sec, ips: 2.9",
        " iteration  {step}/50000 | consumed samples: 5632 | consumed tokens:  11534336 | "
        "elapsed time per iteration (ms):  500.0 | learning rate:    1.499E-05",
    ],
)
def test_other_releases_print_it_otherwise(line: str, tmp_path: Path) -> None:
    text = "".join(line.format(step=step) + "\n" for step in range(3))
    assert iterations(opened(tmp_path, text)).column("took") == (500.0,) * 3


def test_averages_that_a_log_states_tell_of_the_iterations_that_it_leaves_out(tmp_path: Path) -> None:
    """Every hundredth is printed, and the first one of the second epoch waits for 60 s."""
    line = "Epoch: [{}][ {}/300]\tTime 0.500 ( {:.3f})\tData 0.000 ( {:.3f})\tLoss 7.0\n"
    first = "".join(line.format(0, step, 0.5, 0.0) for step in (0, 99, 199))
    second = "".join(line.format(1, step, 0.5 + 60 / (step + 1), 60 / (step + 1)) for step in (99, 199))
    assert "23 % of it waiting for data" in iterations(opened(tmp_path, first + second)).title


@pytest.mark.parametrize(("share", "told"), [(0.49, False), (0.51, True)])
def test_waiting_for_data_is_the_verdict_where_it_takes_half_of_the_time(
    share: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(log("torchvision", 0.4, 0.4, 0.4, data=share))
    assert main(["diagnose", str(path)]) == 0
    said = capsys.readouterr().out
    assert ("51 % of the program's time is in waiting for data" in said) is told
    assert ("let more workers load it" in said) is told
    assert "ran for" not in said


@pytest.mark.parametrize(
    ("first", "slow", "said"),
    [(0.39, 0.39, ""), (0.41, 0.39, ", the first 410 ms"), (0.39, 0.41, ", one of twenty 410 ms or more")],
)
def test_the_first_iteration_and_slow_ones_are_told_from_twice_the_usual_time_on(
    first: float, slow: float, said: str, tmp_path: Path
) -> None:
    took = [first, *[0.2] * 17, slow, slow]
    title = iterations(opened(tmp_path, log("MaxText", *took))).title
    assert title == f"Log of MaxText: an iteration takes 200 ms (median of 20){said}"


@pytest.mark.parametrize(
    ("epochs", "first", "said"),
    [(3, 0.41, ", the first of an epoch 410 ms"), (3, 0.39, ""), (2, 0.41, ", the first 410 ms")],
)
def test_the_first_iteration_of_each_epoch_is_told_of_three_epochs_on(
    epochs: int, first: float, said: str, tmp_path: Path
) -> None:
    text = log("nanoGPT", first, *[0.2] * 9) * epochs
    title = iterations(opened(tmp_path, text)).title
    assert title == f"Log of nanoGPT: an iteration takes 200 ms (median of {10 * epochs}){said}"


def test_means_since_an_epoch_began_tell_what_its_iterations_took(tmp_path: Path) -> None:
    """Every tenth line is printed: the first iteration takes 6.0 s, the others 0.5 s."""
    line = "Epoch: [{}/9] Iter:[{}/78], Time: {:.4f}, lr: [0.01], Loss: 6.5\n"
    means = {step: (6.0 + 0.5 * step) / (step + 1) for step in range(0, 80, 10)}
    text = "".join(line.format(epoch, step, mean) for epoch in range(3) for step, mean in means.items())
    table = iterations(opened(tmp_path, text))
    assert (
        table.title == "Log of HRNet: an iteration takes 500 ms (median of 24), the first of an epoch 6.00 s"
    )
    assert table.column("took")[:3] == pytest.approx([6000.0, 500.0, 500.0], abs=20.0)


@pytest.mark.parametrize(("count", "known"), [(2, False), (3, True)])
def test_three_lines_are_a_log(count: int, known: bool, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(log("Megatron", *[0.5] * count))
    parser = parser_of(identify(path))
    assert (parser is not None and parser.format == "training-log") is known


def bar(step: int, of: int, rate: str) -> str:
    return f"\r {100 * step // of}%|###       | {step}/{of} [00:{step:02}<01:10, {rate}, loss=2.1]"


@pytest.mark.parametrize(("count", "known"), [(9, False), (10, True)])
def test_ten_updates_of_one_progress_bar_are_a_log(count: int, known: bool, tmp_path: Path) -> None:
    other = "".join(bar(step, 4, "2.50s/it") for step in range(1, 5))
    path = tmp_path / "job.log"
    path.write_text(other + "".join(bar(step, 90, " 4.00it/s") for step in range(1, count + 1)))
    parser = parser_of(identify(path))
    assert (parser is not None and parser.format == "training-log") is known
    if known:
        (table,) = open_trace([path]).tables
        assert table.title == "Progress bar of 90 iterations: one takes 250 ms (median, smoothed)"
        assert table.column("took") == (250.0,) * 10


def test_bars_of_another_name_are_another_bar(tmp_path: Path) -> None:
    """Their numbers are no names: each epoch has another one."""
    warm = "".join(f"\rwarm-up: {bar(step, 90, '9.00it/s').strip()}" for step in range(1, 21))
    epochs = "".join(
        f"\rEpoch {epoch}: {bar(step, 90, ' 4.00it/s').strip()}" for epoch in (1, 2) for step in range(1, 16)
    )
    (table,) = opened(tmp_path, warm + epochs).tables
    assert table.title == (
        "Progress bar 'Epoch' of 90 iterations: one takes 250 ms (median, smoothed), 7.50 s in all, "
        "while 'warm-up' of 90 takes 2.22 s"
    )
    assert len(table.rows) == 30


@pytest.mark.parametrize(("rate", "named"), [("9.90it/s", True), ("10.10it/s", False)])
def test_the_bar_that_takes_longest_is_told_and_others_that_take_a_tenth_of_it(
    rate: str, named: bool, tmp_path: Path
) -> None:
    """Checking has fewer iterations, and takes more time; two ranks print their bars into one another."""
    train = "".join(f"\rtrain: {bar(step, 3104, rate).strip()}" for step in range(1, 41))
    check = "".join(2 * f"\rcheck: {bar(step, 164, '4.00s/it').strip()}" for step in range(1, 11))
    (table,) = opened(tmp_path, train + check).tables
    beside = ", 40.0 s in all, while 'train' of 3104 takes 4.04 s" if named else ""
    assert (
        table.title == f"Progress bar 'check' of 164 iterations: one takes 4.00 s (median, smoothed){beside}"
    )


def test_a_bar_of_loading_weights_has_a_name(tmp_path: Path) -> None:
    line = "\rLoading safetensors checkpoint shards: {0:>3}% Completed | {0}/17 [00:42<11:23, 2.00s/it]"
    (table,) = opened(tmp_path, "".join(line.format(step) for step in range(1, 18))).tables
    assert table.title == (
        "Progress bar 'Loading safetensors checkpoint shards' of 17 iterations: one takes 2.00 s (median, smoothed)"
    )


def test_a_bar_that_states_its_losses_is_one_bar(tmp_path: Path) -> None:
    """Beside one of checking, which has fewer updates, but the same words in each of them."""
    checks = "".join(
        f"\rClass Images mAP@.5: {bar(step % 7, 7, '9.00it/s').strip()}" for step in range(1, 15)
    )
    train = "".join(
        f"\r  {epoch}/2  1.2G  0.0{step}  640: {bar(step, 38, ' 4.00it/s').strip()}"
        for epoch in (1, 2)
        for step in range(1, 9)
    )
    (table,) = opened(tmp_path, checks + train).tables
    assert table.title == (
        "Progress bar of 38 iterations: one takes 250 ms (median, smoothed), 4.00 s in all, "
        "while 'Class Images' of 7 takes 1.33 s"
    )
    assert len(table.rows) == 16


def loggable(step: str, rate: str) -> str:
    """As tqdm-loggable prints it."""
    return f"04:52:05.299 [I] Progress on: {step}/200kit rate:{rate} remaining:36:46 elapsed:2:49 postfix:-\n"


@pytest.mark.parametrize(
    ("again", "said"),
    [
        ("0.3s/it", ", 300 ms since it last began anew"),  # a third of what it took
        ("0.9s/it", ""),
    ],
)
def test_a_bar_without_a_terminal_counts_in_thousands(again: str, said: str, tmp_path: Path) -> None:
    lines = "".join(loggable(f"{step}.00it", "1.0s/it") for step in range(1, 21))
    lines += "".join(loggable(f"12.{step}kit", "1.0s/it") for step in range(9))
    (table,) = opened(
        tmp_path, lines + "".join(loggable(f"{step}.00it", again) for step in range(1, 13))
    ).tables
    assert table.title == f"Progress bar of 200000 iterations: one takes 1.00 s (median, smoothed){said}"
    assert (table.rows[0][0], table.rows[28][0]) == (1.0, 12_800.0)


def test_lines_of_iterations_tell_more_than_a_bar(tmp_path: Path) -> None:
    bars = "".join(bar(step, 90, "1.50s/it") for step in range(1, 20))
    assert iterations(opened(tmp_path, bars + "\n" + log("nanoGPT", 0.5, 0.5, 0.5))).title.startswith(
        "Log of nanoGPT"
    )


def test_a_bar_that_stands_still_has_no_times(tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        opened(tmp_path, "".join(bar(step, 90, "0.00it/s") for step in range(20)))


def stamped(count: int, every_s: float, fraction: str = ",500") -> str:
    lines = []
    for number in range(count):
        at = number * every_s
        clock = f"{10 + int(at) // 3600:02}:{int(at) // 60 % 60:02}:{int(at) % 60:02}"
        part = fraction and f",{round(at % 1 * 1000):03}"
        lines.append(f"[2026-06-15 {clock}{part}] INFO - Epoch [1/9] Step [{20 * number}/756] Loss: 0.1")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("count", "known"), [(10, False), (11, True)])
def test_counters_beside_times_of_day_tell_what_an_iteration_takes(
    count: int, known: bool, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_text(stamped(count, 6.5))
    parser = parser_of(identify(path))
    assert (parser is not None and parser.format == "training-log") is known
    if known:
        (table,) = open_trace([path]).tables
        assert table.title == "Log with times of day: an iteration takes 325 ms (median of 10)"
        assert table.column("iteration")[0] == 20.0


def test_checking_between_epochs_is_told_apart_by_how_many_iterations_it_has(tmp_path: Path) -> None:
    checks = stamped(11, 5).replace("/756]", "/90]")
    first, second = opened(tmp_path, stamped(12, 2) + checks).tables
    assert first.title.startswith(
        "Log with times of day of 756 iterations: an iteration takes 100 ms (median of 11)"
    )
    assert second.title.startswith(
        "Log with times of day of 90 iterations: an iteration takes 250 ms (median of 10)"
    )


@pytest.mark.parametrize(("count", "known"), [(10, False), (11, True)])
def test_counters_beside_what_has_passed_tell_what_an_iteration_takes(
    count: int, known: bool, tmp_path: Path
) -> None:
    path = tmp_path / "job.log"
    path.write_text(
        "".join(
            f"[ {n} Epoch:[ 0/25] [ {n}/ 273] time: {4 + n * 0.75:.4f}, loss: 1.39\n" for n in range(count)
        )
    )
    parser = parser_of(identify(path))
    assert (parser is not None and parser.format == "training-log") is known
    if known:
        (table,) = open_trace([path]).tables
        assert table.title == "Log with times since the start: an iteration takes 750 ms (median of 10)"


def test_times_that_do_not_grow_have_not_passed_since_the_start(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("".join(f"[ {n}/ 273] time: {0.7 + n % 7 / 100:.4f}, loss: 1.39\n" for n in range(30)))
    assert parser_of(identify(path)) is None


def test_years_of_two_digits_and_thousands_with_commas_are_read(tmp_path: Path) -> None:
    text = "".join(
        f"26-06-15 21:{n:02}:37.738 - INFO: [epoch:  3, iter:  {20_000 + n * 100:,}, lr:(1.992e-04,)] l_pix: 2e-02\n"
        for n in range(12)
    )
    (table,) = opened(tmp_path, text).tables
    assert table.title == "Log with times of day: an iteration takes 600 ms (median of 11)"
    assert table.column("iteration")[:2] == (20_100.0, 20_200.0)


@pytest.mark.parametrize(("every_s", "known"), [(9, False), (10, True)])
def test_whole_seconds_tell_from_ten_on(every_s: int, known: bool, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(stamped(12, every_s, ""))
    parser = parser_of(identify(path))
    assert (parser is not None and parser.format == "training-log") is known


def test_a_new_epoch_is_no_iteration(tmp_path: Path) -> None:
    first = stamped(12, 6.5)
    later = stamped(12, 6.5).replace(" 10:", " 11:")
    assert len(iterations(opened(tmp_path, first + later)).rows) == 22


def test_how_its_ranks_are_connected_is_told_too(tmp_path: Path) -> None:
    nccl = "node-a:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct\n"
    trace = opened(tmp_path, nccl + log("nanoGPT", 0.5, 0.5, 0.5))
    assert trace.tables[-1].title == "NCCL: through the host's memory (SHM)"


def test_a_log_longer_than_its_head_is_read_whole(tmp_path: Path) -> None:
    text = "compiling\n" * 20_000 + log("DeepSpeed", *[0.25] * 50)
    assert len(iterations(opened(tmp_path, text)).rows) == 50


@given(st.lists(st.sampled_from([*LINES]), max_size=8), any_text(40), st.floats(0, 1e9))
def test_any_lines_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, sorts: list[str], noise: str, took: float
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    try:
        opened(folder, noise.join(log(sort, took, 0.0, took) for sort in sorts) or "x")
    except TraceError:
        return
