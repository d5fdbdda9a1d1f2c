"""Threads that decode into the same classes for the first time at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import threading
from dataclasses import field, make_dataclass

import msgspec

from parsers.files.decoders import from_json, from_msgpack

sys.setswitchinterval(1e-6)
THREADS = 8
wrong = []
for number in range(20):
    inner = make_dataclass("Inner", [(f"x{each}", int, field(default=0)) for each in range(60)])
    outer = make_dataclass("Outer", [(f"y{each}", inner | None, field(default=None)) for each in range(20)])
    together = threading.Barrier(THREADS)

    def decode(form, decoded):
        content = form.encode({"y3": {"x5": number}})
        together.wait()
        found = decoded(content, outer)
        if found.y3.x5 != number or found.y4 is not None:
            wrong.append(found)

    forms = [(msgspec.json, from_json), (msgspec.msgpack, from_msgpack)]
    threads = [threading.Thread(target=decode, args=forms[each % 2]) for each in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
sys.exit(len(wrong))
"""


def test_threads_may_decode_into_a_class_for_the_first_time_at_once(repository: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=repository, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
