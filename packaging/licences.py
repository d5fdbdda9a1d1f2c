"""Collects the licences of everything that the frozen folder carries into one text.

``licences.py FOLDER OUT LIST``: FOLDER is the frozen program. The libraries are those that the program declares, and
theirs in turn; what a wheel says about its own bundled libraries comes with its licence files. LIST gets their names
and versions, one requirement a line, for a bill of materials.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

LICENCE_FILE = re.compile(
    r"(^|/)(licen[cs]e|copying|notice|authors|third.?party)[^/]*$|dist-info/licenses/", re.IGNORECASE
)
WITHOUT_FILES = {
    "pyside6-essentials": "LGPL-3.0-only: https://www.gnu.org/licenses/lgpl-3.0.html. Source: https://code.qt.io. The "
    "Qt libraries lie as separate files in _internal/PySide6 and can be replaced by other builds of them.",
    "shiboken6": "LGPL-3.0-only: https://www.gnu.org/licenses/lgpl-3.0.html. Source: https://code.qt.io.",
}
SYSTEM_LIBRARIES = {
    "libpython": "Python: PSF License Agreement, https://docs.python.org/3/license.html",
    "libffi": "libffi: MIT, https://github.com/libffi/libffi",
    "libbz2": "bzip2: bzip2-1.0.6, https://sourceware.org/bzip2/",
    "liblzma": "XZ Utils (liblzma): 0BSD, https://tukaani.org/xz/",
    "libsqlite3": "SQLite: public domain, https://www.sqlite.org/copyright.html",
    "libuuid": "libuuid (util-linux): BSD-3-Clause, https://github.com/util-linux/util-linux",
    "libexpat": "Expat: MIT, https://libexpat.github.io",
    "libmpdec": "mpdecimal: BSD-2-Clause, https://www.bytereef.org/mpdecimal/",
    "libicu": "ICU: Unicode-3.0, https://github.com/unicode-org/icu",
}


def bundled(name: str, known: dict[str, Distribution]) -> dict[str, Distribution]:
    """``name`` and what it requires here, without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in known:
        try:
            known[key] = distribution(name)
        except PackageNotFoundError:
            return known
        for line in known[key].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                bundled(requirement.name, known)
    return known


def texts(of: Distribution) -> Iterator[str]:
    """The licence files of one library."""
    for file in of.files or []:
        path = Path(str(of.locate_file(file)))
        if LICENCE_FILE.search(str(file)) and path.is_file() and path.suffix not in (".py", ".pyc", ".pyi"):
            yield f"--- {file}\n\n{path.read_text('utf-8', 'replace').strip()}\n"


def carried_libraries() -> dict[str, Distribution]:
    """What the program needs, by name."""
    libraries = bundled("stallscope", {})
    for absent in ("stallscope", "pip"):  # sqlite-utils asks for pip, and nothing here runs it
        libraries.pop(absent, None)
    return libraries


def page(folder: Path) -> str:
    """The whole text."""
    parts = ["Stallscope itself is under the MIT licence. This folder carries these libraries:\n"]
    missing = []
    for key, library in sorted(carried_libraries().items()):
        stated = (
            library.metadata.get("License-Expression") or library.metadata.get("License", "").split("\n")[0]
        )
        found = list(texts(library)) or [WITHOUT_FILES[key]] * (key in WITHOUT_FILES)
        if not found and not stated:
            missing.append(key)
        parts.append(f"{'=' * 100}\n{library.name} {library.version}   {stated}\n\n" + "\n".join(found))
    names = {path.name for path in folder.rglob("*.so*")}
    carried = [
        line for stem, line in SYSTEM_LIBRARIES.items() if any(name.startswith(stem) for name in names)
    ]
    parts.append(f"{'=' * 100}\nLibraries of the system that come along\n\n" + "\n".join(carried) + "\n")
    fonts = Path(__file__).parent.parent / "resources" / "fonts"
    parts += [
        f"{'=' * 100}\nThe font {each.stem.removeprefix('LICENSE-')}\n\n{each.read_text('utf-8')}"
        for each in sorted(fonts.glob("LICENSE-*.txt"))
    ]
    if missing:
        raise SystemExit(f"no licence is known of: {', '.join(missing)}")
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1])), "utf-8")
    pinned = [f"{each.name}=={each.version}\n" for _, each in sorted(carried_libraries().items())]
    Path(sys.argv[3]).write_text("".join(pinned), "utf-8")
