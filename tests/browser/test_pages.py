"""A page as its reader uses it: zoom, hover, findings that fly to their evidence, tables; and names that do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import resources
from parsers import open_trace
from rules.comparison.compare import compare
from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import Write
from tests.examples import one_of
from tests.fuzzing.crafting import MAKERS
from tests.viewer.test_hostile_names import recording as hostile_recording
from viewer.reports.comparison_blocks import comparison_report
from viewer.reports.rendering.pages import page_of

SHIFT, CONTROL = 8, 2
TALLEST_ROW = """(() => {
  const {timelines: [one]} = stallscope, rect = one.lanes.getBoundingClientRect();
  const item = one.items.find(each => each.track?.gaps >= 0), level = item.levels[0];
  const {first, last} = one.recording.rows[level.row];
  let best = first;
  for (let i = first; i < last; i++)
    if (one.x(one.recording.start[i]) > one.names && one.x(one.recording.end[i]) < one.width
      && one.recording.end[i] - one.recording.start[i] > one.recording.end[best] - one.recording.start[best]) best = i;
  const x = (one.x(one.recording.start[best]) + one.x(one.recording.end[best])) / 2;
  return {x: rect.left + x, y: rect.top + 24 + item.top + level.top + level.height / 2 - one.lanes.scrollTop,
    name: one.recording.header.names.text[one.recording.name[best]], launch: one.recording.launch[best]};
})()"""
CANVAS = "stallscope.timelines[0].canvas"
RECORDING = "stallscope.timelines[0].recording"
VIEW = "[stallscope.camera.offset, stallscope.camera.scale]"


def view(page: Page) -> tuple[float, float]:
    """Where the timeline begins, and ns for each pixel, once it has been drawn."""
    page.until("!stallscope.camera.pending")
    offset, scale = page.run(VIEW)
    return offset, scale


def test_keys_wheel_and_mouse_move_the_timeline(chromium: Chromium, sample: str) -> None:
    with chromium.page(sample) as page:
        start, scale = view(page)
        page.key("w")
        assert view(page)[1] == pytest.approx(scale / 1.35)
        page.key("s")
        assert view(page)[1] == pytest.approx(scale)
        page.key("d")
        assert view(page)[0] > start
        page.key("a")
        assert view(page)[0] == pytest.approx(start)
        page.key("0")
        assert view(page)[1] > 3 * scale
        left, top = page.run(f"(({{left, top}}) => [left, top])({CANVAS}.getBoundingClientRect())")
        place = (round(left) + 500, round(top) + 60)
        under = f"stallscope.timelines[0].time({place[0] - left})"
        pointed_at = page.run(under)
        page.wheel(*place, -100, CONTROL)
        assert view(page)[1] < page.run("stallscope.camera.high - stallscope.camera.low") / 500
        assert page.run(under) == pytest.approx(pointed_at)
        before = view(page)[0]
        page.drag(place, (place[0] - 120, place[1]))
        assert view(page)[0] == pytest.approx(before + 120 * view(page)[1])
        before = view(page)[1]
        page.drag(place, (place[0] + 100, place[1]), SHIFT)
        zoomed = view(page)[1]
        assert zoomed == pytest.approx(before * 100 / page.run("stallscope.camera.width"))
        page.wheel(*place, -100)
        assert view(page)[1] < zoomed, "the wheel zooms by itself once the timeline was clicked"
        assert page.problems == []


def test_the_thing_under_the_mouse_is_told_with_its_launch(chromium: Chromium, sample: str) -> None:
    with chromium.page(sample) as page:
        found = page.run(TALLEST_ROW)
        page.mouse("mouseMoved", found["x"], found["y"])
        card = page.until(
            "!document.querySelector('.card').hidden && document.querySelector('.card').textContent"
        )
        assert found["name"].split("(")[0][:20] in card
        assert "GPU 0 · stream 7" in card
        assert "launched by cuda" in card
        page.click(found["x"], found["y"])
        page.until("document.querySelector('.details').textContent.includes('Go to the launch')")
        page.run("[...document.querySelectorAll('.details button')].at(-1).click()")
        assert page.run("stallscope.timelines[0].chosen") == found["launch"]


def test_a_finding_flies_to_its_evidence_and_back(chromium: Chromium, sample: str) -> None:
    with chromium.page(sample) as page:
        button = page.run(
            "(() => { const one = document.querySelector('button.place'); one.focus(); return one.textContent })()"
        )
        assert " at " in button
        page.run("document.activeElement.click()")
        low, high = page.run("[stallscope.timelines[0].flash.low, stallscope.timelines[0].flash.high]")
        left, right = page.run(f"[stallscope.timelines[0].x({low}), stallscope.timelines[0].x({high})]")
        assert (right - left) / page.run("stallscope.camera.width") == pytest.approx(0.35)
        page.until("stallscope.timelines[0].section.getBoundingClientRect().top < 5")
        page.run("document.querySelector('button.back').click()")
        assert page.run("document.activeElement.textContent") == button


def test_tables_sort_by_their_numbers_and_keep_what_a_word_names(chromium: Chromium, sample: str) -> None:
    with chromium.page(sample) as page:
        tables = "[...document.querySelectorAll('table')]"
        page.run(f"globalThis.table = {tables}.find(each => each.tHead?.textContent.includes('calls'))")
        calls = "[...table.tHead.rows[0].cells].findIndex(each => each.textContent === 'calls')"
        values = f"[...table.tBodies[0].rows].map(row => Number(row.cells[{calls}].dataset.value))"
        few = len(page.run(values))
        page.run(f"table.tHead.rows[0].cells[{calls}].querySelector('button').click()")
        down = page.run(values)
        assert down == sorted(down, reverse=True)
        page.run(f"table.tHead.rows[0].cells[{calls}].querySelector('button').click()")
        assert page.run(values)[0] < down[0]
        more = "table.nextElementSibling"
        page.run(f"{more}.click()")
        every = page.run(values)
        assert len(every) > few == 5
        assert every == sorted(every)
        page.run(
            "(input => { input.value = 'gemm'; input.dispatchEvent(new Event('input')) })(table.previousElementSibling)"
        )
        rows = page.run("[...table.tBodies[0].rows].map(row => row.textContent.toLowerCase())")
        assert rows
        assert all("gemm" in row for row in rows)
        assert len(rows) < len(every)


def test_both_timelines_of_a_comparison_move_together(chromium: Chromium, tmp_path: Path) -> None:
    sides = [
        open_trace([resources.path(f"samples/{name}.pt.trace.json.gz")])
        for name in ("dataloader_starved", "healthy")
    ]
    file = tmp_path / "comparison.html"
    file.write_text(page_of(comparison_report(compare(*sides))).text, "utf-8")
    with chromium.page(file.as_uri()) as page:
        length = "({recording: {header: {view: [low, high]}}, camera}) => (high - low) / camera.scale"
        widths = f"stallscope.timelines.map({length})"
        one, other = page.run(widths)
        page.key("w")
        view(page)
        assert page.run(widths) == pytest.approx([one * 1.35, other * 1.35])
        starts = page.run("stallscope.timelines.map(each => each.t0 - each.anchor)")
        assert starts[0] == pytest.approx(starts[1])
        assert page.problems == []


def test_without_scripts_a_page_reads_as_well(chromium: Chromium, sample: str) -> None:
    with chromium.page(sample, script=False) as page:
        page.until("document.readyState === 'complete'")
        assert (
            page.run("getComputedStyle(document.querySelector('section.timeline figure')).display") == "block"
        )
        assert page.run("document.querySelector('section.timeline svg').getBoundingClientRect().height") > 100
        assert "The GPU waits for data" in page.run("document.querySelector('h1').innerText")
        assert page.run("/[A-Za-z0-9+\\/]{400}/.test(document.body.innerText)") is False


STICKS_OUT = """[...document.querySelectorAll('body *')].filter(each => {
  const scrolls = each.parentElement.closest('pre, figure, .scroll, .lanes, .overview');
  return !scrolls && each.getBoundingClientRect().right > innerWidth + 1;
}).map(each => each.tagName + ' ' + each.textContent.slice(0, 60))"""
HEIGHT_OF_TEXT = """Math.min(...[...document.querySelectorAll('figure svg text')].map(each => {
  const svg = each.ownerSVGElement, drawn = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return drawn ? parseFloat(getComputedStyle(each).fontSize) * drawn : Infinity;
}))"""
SQUEEZED = """[...document.querySelectorAll('td.answer')].filter(each => each.textContent.length > 2
  && each.getBoundingClientRect().width && each.getBoundingClientRect().width < 20).length"""


@pytest.mark.parametrize(
    ("width", "dark"),
    one_of(2, [(390, False), (390, True), (1440, True), (820, False), (820, True), (1440, False)]),
)
def test_a_page_fits_its_reader_and_what_is_in_it_can_be_read(
    chromium: Chromium, sample: str, width: int, dark: bool
) -> None:
    with chromium.page(sample, width=width, dark=dark) as page:
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run(STICKS_OUT) == []
        assert page.run(HEIGHT_OF_TEXT) > 7.5
        assert page.run(SQUEEZED) == 0
        ground, ink = page.run(
            "[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).color]"
            ".map(each => each.match(/\\d+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0))"
        )
        assert (ground < ink) is dark


def is_inert(page: Page, address: str) -> None:
    """Nothing of the recording became markup, ran, or asked for anything."""
    assert page.problems == []
    assert page.requests == [address]
    assert page.run("document.querySelectorAll('img, a, iframe, link, object, embed, form').length") == 0
    assert page.run("document.querySelectorAll('script:not(.recording)').length") == 1
    assert page.run("document.querySelectorAll('b, i, u').length") == 0


def test_names_that_look_like_markup_stay_names(
    chromium: Chromium, address_of: Write, tmp_path: Path
) -> None:
    address = address_of(hostile_recording(tmp_path))
    with chromium.page(address) as page:
        assert "<script>alert(1)</script>" in page.run("document.body.textContent")
        texts = f"{RECORDING}.header.names.text"
        found = page.run(f"{RECORDING}.name.findIndex(name => {texts}[name].includes('<script>'))")
        assert found >= 0
        page.run(f"stallscope.timelines[0].choose({found})")
        assert "<b>bold</b>" in page.run("document.querySelector('.details').textContent")
        is_inert(page, address)


@pytest.mark.thorough
@pytest.mark.parametrize("maker", sorted(MAKERS))
def test_a_page_of_each_crafted_recording_is_inert(
    chromium: Chromium, address_of: Write, tmp_path: Path, maker: str
) -> None:
    from parsers.model import TraceError

    path = tmp_path / "crafted"
    path.write_bytes(MAKERS[maker](200))
    try:
        address = address_of(path)
    except TraceError:
        return  # refused: there is no page
    with chromium.page(address) as page:
        is_inert(page, address)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["no_such_field", "truncated", "huge_count"])
def test_a_damaged_recording_in_a_page_leaves_the_picture(
    chromium: Chromium, sample: str, tmp_path: Path, name: str
) -> None:
    text = Path(sample.removeprefix("file://")).read_text("utf-8")
    head, mark, rest = text.partition('class="recording">')
    data, end, tail = rest.partition("</script>")
    damaged = {
        "no_such_field": "AAAA" * 40,
        "truncated": data[: len(data) // 8 * 4],
        "huge_count": "eJz" + data[3:400],
    }
    file = tmp_path / "damaged.html"
    file.write_text(head + mark + damaged[name] + end + tail, "utf-8")
    with chromium.page(file.as_uri()) as page:
        assert "cannot show the interactive timeline" in page.run("document.body.innerText")
        assert (
            page.run("getComputedStyle(document.querySelector('section.timeline figure')).display") == "block"
        )


def test_a_recording_without_a_gpu_has_its_lanes_too(chromium: Chromium, address_of: Write) -> None:
    feed = Path(__file__).parents[1] / "fixtures" / "stacks" / "feed.chrome.json"
    with chromium.page(address_of(feed)) as page:
        assert page.run("document.querySelector('section.timeline figure')") is None
        titles = page.run("stallscope.timelines[0].items.map(each => each.track.title)")
        assert titles == ["Samples", "Samples"]
        place = page.run("document.querySelector('button.place').textContent")
        page.run("document.querySelector('button.place').click()")
        assert page.run("stallscope.timelines[0].flash.item !== null")
        assert place.startswith("/tmp/cpu/feed.py at ")
        assert page.problems == []


def test_the_longest_of_a_run_is_found_whatever_its_edges(chromium: Chromium, sample: str) -> None:
    wrong = """(() => {
      const {recording} = stallscope.timelines[0], {start, end} = recording;
      const row = recording.rows.reduce((one, other) => other.last - other.first > one.last - one.first ? other : one);
      const size = row.last - row.first, wrong = [];
      for (let seed = 1; seed < 400; seed++) {
        const low = row.first + (seed * 7919) % (size - 1);
        const high = Math.min(low + 1 + (seed * seed * 31) % size, row.last);
        let most = 0;
        for (let i = low; i < high; i++) most = Math.max(most, end[i] - start[i]);
        const found = stallscope.longestOf(recording, row, low, high);
        if (found < low || found >= high || end[found] - start[found] !== most) wrong.push([low, high, found]);
      }
      return size > 2000 ? wrong : "too few";
    })()"""
    with chromium.page(sample) as page:
        assert page.run(wrong) == []
