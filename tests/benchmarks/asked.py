"""``make bench ARGS=asked``: what must stay fast, as one table beside what is asked, medians of five in one run.

``--peers PROGRAM`` names Perfetto's trace_processor, which is then asked to count the events of the same file.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import resources
from tests.benchmarks import kineto_like
from tests.benchmarks.floor import scan
from tests.benchmarks.generate_nsys import write_export
from tests.benchmarks.loading import forget_cached, peak_of_opening
from tests.benchmarks.published import Table

ROUNDS = 5
EVENTS, LARGER, ROWS, RANKS = 1_000_000, 5_000_000, 10_000_000, 1_024
FRAMES = 300
Row = tuple[str, str, str]  # what, measured, asked

_ZOOM = """(async () => {
  const {camera} = stallscope, spent = [], length = camera.high - camera.low;
  for (let frame = 0; frame < %d; frame++) {
    const part = 10 ** (-4 * Math.abs(1 - 2 * frame / %d)), scale = length / camera.width * part;
    const began = performance.now();
    camera.set((camera.low + camera.high) / 2 - scale * camera.width / 2, scale);
    for (const draw of camera.drawers) draw();
    spent.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return spent;
})()"""


def report(folder: Path, perfetto: Path | None) -> Table:
    """Print the table as its rows become known."""
    table = Table("asked", "", "work", "measured", "asked")
    for part in (_commands, _small, _memory, _windows, _drawing, _pages, _ranks):
        for row in part(folder, perfetto):
            table.row(*row)
    return table


def _median(
    work: Callable[[], object], before: Callable[[], object] = lambda: None, rounds: int = ROUNDS
) -> float:
    taken = []
    for _ in range(rounds):
        before()
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _run(*words: str | Path) -> None:
    """As an installed program runs, which finds its modules compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*map(str, words)], check=True, env=environment, **quiet)


def _diagnose(path: Path) -> Callable[[], None]:
    return lambda: _run(sys.executable, "-m", "stallscope", "diagnose", path)


def _commands(folder: Path, perfetto: Path | None) -> Iterator[Row]:
    path = folder / "million.json"
    kineto_like.write(path, EVENTS)
    floor = _median(lambda: scan(path))
    first = _median(_diagnose(path), forget_cached)
    again = _median(_diagnose(path))
    told = f"first {first:.2f} s, again {again:.2f} s; decoding the file in Python {floor:.2f} s"
    if perfetto is None:
        yield f"diagnose, {EVENTS:,} events", told, "1/6 and 1/20 of Perfetto (--peers trace_processor)"
        return
    query = folder / "count.sql"
    query.write_text("SELECT count(*) FROM slice;")
    theirs = _median(lambda: _run(perfetto, "-q", query, path))
    ratios = f"; Perfetto {theirs:.2f} s: 1/{theirs / first:.1f} and 1/{theirs / again:.1f} of it"
    yield f"diagnose, {EVENTS:,} events", told + ratios, "1/6 and 1/20 of Perfetto"


def _small(_: Path, __: Path | None) -> Iterator[Row]:
    path = resources.path("samples/elementwise_chain.pt.trace.json.gz")
    bare = _median(lambda: _run(sys.executable, "-c", "import numpy"))
    _diagnose(path)()
    first = _median(_diagnose(path), forget_cached)
    again = _median(_diagnose(path))
    yield (
        "diagnose, a small recording, whole process",
        f"first {first:.2f} s, again {again:.2f} s; Python and numpy alone {bare:.2f} s",
        "0.35 s",
    )


def _memory(folder: Path, _: Path | None) -> Iterator[Row]:
    path = folder / "larger.json"
    kineto_like.write(path, LARGER)
    size, peak = path.stat().st_size, peak_of_opening(path)
    path.unlink()
    yield f"memory of opening {LARGER:,} events / file", f"{peak / size:.2f} ({peak / 1e6:,.0f} MB)", "1.0"


def _windows(folder: Path, _: Path | None) -> Iterator[Row]:
    from parsers import open_trace
    from tests.benchmarks.window_loading import measure

    path = write_export(folder / "rows.sqlite", ROWS)
    script = "import sys, pathlib; from parsers import open_trace; open_trace([pathlib.Path(sys.argv[1])])"
    opening, lanes = [], []
    open_trace([path])  # what the system has read, it keeps: for both alike
    for _ in range(ROUNDS):
        forget_cached()
        opening.append(_median(lambda: _run(sys.executable, "-c", script, path), rounds=1))
        forget_cached()
        lanes.append(measure(path).all_lanes)
    path.unlink()
    ratio = statistics.median(lane / opened for lane, opened in zip(lanes, opening, strict=True))
    yield f"all lanes of {ROWS:,} rows / opening", f"{ratio:.2f} ({statistics.median(lanes):.1f} s)", "1.3"


def _drawing(_: Path, __: Path | None) -> Iterator[Row]:
    from tests.benchmarks.drawing import ZOOMS, measure

    worst: dict[str, list[float]] = {zoom: [] for zoom in ZOOMS}
    for times in measure(ROWS, ROUNDS):
        worst[times.zoom].append(float(np.percentile(times.zooming[:, 1], 99)))
    told = ", ".join(f"{zoom} {statistics.median(values):.1f} ms" for zoom, values in worst.items())
    yield f"zoom, p99 of the work of a frame, {ROWS:,} events", told, "8 ms"


def _pages(folder: Path, _: Path | None) -> Iterator[Row]:
    from tests.browser.chromium import Chromium, installed

    program, page = installed(), folder / "page.html"
    path = folder / "million.json"
    _run(sys.executable, "-m", "stallscope", "diagnose", path, "--html", page)
    size = page.stat().st_size / 1e6
    yield f"page of {EVENTS:,} events", f"{size:.2f} MB", "5 MB"
    if program is None:
        yield "page in Chromium", "no Chromium here", "first picture 1 s, frames p99 16 ms"
        return
    browser = Chromium(folder, program)
    try:
        painted, drawn, frames = _looked_at(browser, page.as_uri())
    finally:
        browser.close()
    yield "page: first picture, lanes drawn", f"{painted:.2f} s, {drawn:.2f} s", "1 s"
    p50, p99 = np.percentile(frames, (50, 99))
    yield f"page: {FRAMES} frames of a zoom by 10,000", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "16 ms"


def _ranks(folder: Path, _: Path | None) -> Iterator[Row]:
    """Once each: most of the time goes into writing the recordings."""
    from tests.benchmarks.many_ranks import diagnosed

    some, many = (diagnosed(folder, ranks) for ranks in (RANKS // 4, RANKS))
    taken, fewer = (each.reading + each.judging for each in (many, some))
    told = f"{taken:.1f} s, {taken / fewer:.2f} times {some.ranks:,} ranks ({fewer:.1f} s)"
    told += "" if some.named and many.named else "; NOT ALL that was put in is named"
    yield f"{RANKS:,} ranks", told, "12 s, linear (4 times)"


def _looked_at(browser: object, address: str) -> tuple[float, float, Sequence[float]]:
    """Seconds until the first paint and until the lanes are drawn, medians; ms of each frame."""
    from tests.browser.chromium import Chromium

    assert isinstance(browser, Chromium)
    painted, drawn, frames = [], [], []
    for _ in range(ROUNDS):
        with browser.page(address, width=1440) as page:
            painted.append(
                page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
            )
            drawn.append(float(page.run("document.documentElement.dataset.drawn")) / 1000)
            frames += page.run(_ZOOM % (FRAMES, FRAMES))
    return statistics.median(painted), statistics.median(drawn), frames
