"""The types of recordings for desktops and file dialogs, told by the parsers; ``python -m viewer.desktop.file_types``.

The command writes what follows from the parsers: parts of the desktop's files, the packages and the documentation,
and what the start page says before any parser is loaded.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from parsers.known_formats import own_suffixes, recorders, usual_suffixes
from parsers.model.late import regex

SESSION_SUFFIX = ".stallscope"
_SESSION = ("application/x-stallscope-session", "Stallscope session")
_LAST_STEP = "application/x-stallscope-maybe-5"  # stallscope.xml says why there are five
_OFFERED = {".json": "application/json", ".sqlite": "application/vnd.sqlite3", ".csv": "text/csv"}
_PARENTS = {
    ".gz": "application/gzip", ".json": "application/json", SESSION_SUFFIX: "application/vnd.sqlite3"
}  # fmt: skip
_ROOT = Path(__file__).resolve().parents[2]
_BLOCK = regex(
    r"(^[^\n]*\bBEGIN file types\b[^\n]*\n).*?(^[^\n]*\bEND file types\b)", re.DOTALL | re.MULTILINE
)
_ENTRY = regex(r"(?<=^MimeType=).*$", re.MULTILINE)


def file_filter() -> str:
    """The filter of a file dialog, in Qt's words."""
    patterns = " ".join(f"*{suffix}" for suffix in usual_suffixes())
    return f"Recordings ({patterns});;All files (*)"


def opened_suffixes() -> list[str]:
    """Endings of files that a double click opens with this program."""
    return [*own_suffixes(), SESSION_SUFFIX]


def offered_suffixes() -> list[str]:
    """Endings of files that may hold a recording but mostly do not: the program is offered for them."""
    usual = usual_suffixes()
    return [suffix for suffix in _OFFERED if suffix in usual]


def media_types() -> dict[str, tuple[str, str]]:
    """The media type and a description of the files that this program opens, by their ending."""
    recordings = {
        suffix: (media_type, f"{title} recording") for suffix, (media_type, title) in own_suffixes().items()
    }
    return recordings | {SESSION_SUFFIX: _SESSION}


def _declared() -> Iterable[str]:
    from xml.sax.saxutils import escape, quoteattr  # late: it loads what only the network needs

    for suffix, (media_type, comment) in media_types().items():
        parent = next((type for end, type in _PARENTS.items() if suffix.endswith(end)), "")
        yield f"  <mime-type type={quoteattr(media_type)}>"
        yield f"    <comment>{escape(comment)}</comment>"
        if parent:
            yield f"    <sub-class-of type={quoteattr(parent)}/>"
        yield '    <generic-icon name="x-office-document"/>'
        yield f"    <glob pattern={quoteattr('*' + suffix)}{' weight=' + quoteattr('60') if parent else ''}/>"
        yield "  </mime-type>"


def _provided() -> Iterable[str]:
    from xml.sax.saxutils import escape  # late: it loads what only the network needs

    return (f"    <mediatype>{escape(media_type)}</mediatype>" for media_type, _ in media_types().values())


def _registered() -> Iterable[str]:
    """Windows knows the last suffix of a name only: .pt.trace.json cannot be told from .json, which is offered."""
    known = [suffix for suffix in opened_suffixes() if suffix.count(".") == 1 and suffix != SESSION_SUFFIX]
    for suffix in [*known, *offered_suffixes(), ".gz"]:
        yield (
            rf'Root: HKA; Subkey: "{{#Types}}\{suffix}\OpenWithProgids"; ValueType: string; '
            'ValueName: "Stallscope.Recording"; Flags: uninsdeletevalue'
        )


def _listed() -> Iterable[str]:
    yield "| Recorded with | Files | Their names usually end in |"
    yield "|---|---|---|"
    for each in recorders():
        yield f"| {each.title} | {each.text} | {', '.join(f'`{suffix}`' for suffix in each.suffixes)} |"


_WRITTEN: dict[str, Callable[[], Iterable[str]]] = {
    "resources/desktop/stallscope.xml": _declared,
    "packaging/linux/stallscope.metainfo.xml.in": _provided,
    "packaging/windows/stallscope.iss": _registered,
    "docs/formats.md": _listed,
}


def followed(root: Path = _ROOT) -> dict[Path, str]:
    """The text of each file that follows from the parsers, as it should be."""
    texts: dict[Path, str] = {}
    for name, lines in _WRITTEN.items():
        block = "".join(f"{line}\n" for line in lines())
        texts[root / name] = _BLOCK.sub(
            lambda match, block=block: match[1] + block + match[2],  # type: ignore[misc]
            (root / name).read_text("utf-8"),
        )
    entry = root / "resources/desktop/stallscope.desktop"
    opened = "".join(f"{media_type};" for media_type, _ in media_types().values())
    texts[entry] = _ENTRY.sub(f"{opened}{_LAST_STEP};", entry.read_text("utf-8"))
    read = [{"recorder": each.title, "files": each.text} for each in recorders()]
    texts[root / "resources/formats.json"] = json.dumps(read, indent=1) + "\n"
    return texts


def main() -> int:
    """Write what follows from the parsers; with ``--check`` only say whether it is fresh."""
    stale = {
        path: text
        for path, text in followed().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    if "--check" in sys.argv[1:]:
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text, "utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
