"""Reports as pages: the template, colours, and pictures, which stand in the page or beside it; no Qt.

The pages need no network. Their template and their script lie in ``resources/reports``; every text is escaped, no
other script runs in them, and what needs none reads as well without.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import field
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

import resources
from parsers.model.late import dataclass, regex
from viewer.appearance import palette
from viewer.appearance.plain_text import safe
from viewer.reports.pictures.drawing import INK
from viewer.reports.rendering.blocks import Chart, Report

PAPER_INK = "#1b1f27"
SCRIPTS = ("columns", "rows", "camera", "layout", "timeline", "gestures", "tables", "start")
MAX_BYTES = 3_600_000  # of all packed recordings of a page; as text a third more
IN_A_NOTEBOOK = 1_000_000
_SIZE = regex(r'width="(\d+)" height="(\d+)"')


@dataclass(slots=True)
class Page:
    """HTML; ``printed`` pages are of the plain kind that is set on paper, and their pictures lie beside them."""

    printed: bool = False
    most_bytes: int = MAX_BYTES
    text: str = ""
    pictures: list[str] = field(default_factory=list)

    def recording(self, pack: Callable[[int], bytes]) -> Markup:
        """What the script draws, as text that no browser takes for anything else."""
        return Markup(base64.b64encode(pack(self.most_bytes)).decode("ascii"))

    def picture(self, svg: str) -> Markup:
        """What stands in the page for a picture; nothing for none."""
        if not svg:
            return Markup("")
        if not self.printed:
            return Markup(f"<figure>{svg}</figure>")
        self.pictures.append(svg)
        size = _SIZE.search(svg)
        width, height = (size[1], size[2]) if size else ("940", "100")
        return Markup('<p><img src="picture{}" width="{}" height="{}"></p>').format(
            len(self.pictures) - 1, width, height
        )


def page_of(report: Report, *, printed: bool = False, most_bytes: int = MAX_BYTES) -> Page:
    """The report as a self-contained page, or to be printed; all its recordings take ``most_bytes`` packed."""
    recordings = sum(isinstance(block, Chart) and block.recording is not None for block in report.blocks)
    page = Page(printed, most_bytes // max(recordings, 1))
    filled = _template().render(
        report=report,
        severities=palette.SEVERITIES,
        picture=page.picture,
        recording=page.recording,
        ink=PAPER_INK if printed else INK,
        printed=printed,
        style=_style(),
        script=_script(),
        hash_of=_hash,
    )
    page.text = safe(filled) + "\n"
    return page


def framed(page: Page, height: int = 760) -> str:
    """The page as a frame of another one, such as a notebook, which neither its script nor its style can reach."""
    return Markup(
        '<iframe sandbox="allow-scripts" srcdoc="{}" width="100%" height="{}" style="border: 0"></iframe>'
    ).format(page.text, height)


def _hash(text: str) -> str:
    """How a content policy names the one style or script that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


@cache
def _style() -> Markup:
    severities = (
        f"article.{name} {{ --severity: {color}; }}\n" for name, color in palette.SEVERITIES.items()
    )
    return Markup(resources.path("reports/page/style.css").read_text("utf-8") + "".join(severities))


@cache
def _script() -> Markup:
    parts = (resources.path(f"reports/page/{name}.js").read_text("utf-8") for name in SCRIPTS)
    return Markup('(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n")


@cache
def _template() -> Template:
    return Environment(
        loader=FileSystemLoader(resources.path("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
