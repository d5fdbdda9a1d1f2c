"""Reports as pages: the template, colours, and pictures, which stand in the page or beside it; no Qt.

The pages need no network and run no script. Their template lies in ``resources/reports``; every text is escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

import resources
from viewer.look import palette
from viewer.reports.blocks import Report
from viewer.reports.pictures.drawing import INK
from viewer.reports.plain_text import safe

PAPER_INK = "#1b1f27"
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


@dataclass(slots=True)
class Page:
    """HTML; ``printed`` pages are of the plain kind that is set on paper, and their pictures lie beside them."""

    printed: bool = False
    text: str = ""
    pictures: list[str] = field(default_factory=list)

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


def page_of(report: Report, *, printed: bool = False) -> Page:
    """The report as a page that stands alone, or to be printed."""
    page = Page(printed)
    filled = _template().render(
        report=report,
        grey=palette.GREY,
        severities=palette.SEVERITIES,
        picture=page.picture,
        ink=PAPER_INK if printed else INK,
        printed=printed,
    )
    page.text = safe(filled) + "\n"
    return page


@cache
def _template() -> Template:
    return Environment(
        loader=FileSystemLoader(resources.path("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
