"""What a page holds: its tags, attributes, scripts and styles, and the script and hashes it should have."""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser

import resources
from viewer.reports.rendering.pages import SCRIPTS


class Tags(HTMLParser):
    """Collects tags, attributes, and the texts of scripts and styles of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self.open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found.append((tag, dict(attrs)))
        self.open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open in self.inside:
            self.inside[self.open][-1] += data
        else:
            self.text += data

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.found if each == tag]


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_of_ours() -> str:
    parts = (resources.path(f"reports/page/{name}.js").read_text("utf-8") for name in SCRIPTS)
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"
