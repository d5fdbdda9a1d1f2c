"""The processes that reduce ranks are copies of one that has loaded everything, where it has no threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from viewer.loading.ranks import pool

ASKED = """
import json, os, signal, sys, threading
from viewer.loading.ranks import pool

def loaded() -> bool:
    return "rules.catalog.copies" in sys.modules

def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    if sys.argv[1] == "threads":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    made = pool._pool(1)
    told = [made._mp_context.get_start_method(), made.submit(loaded).result()]
    told.append(made.submit(signal.getsignal, signal.SIGTERM).result() == signal.SIG_DFL)
    print(json.dumps(told), flush=True)
    pool._end(made)
    os._exit(0)

if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all processes are started anew")
@pytest.mark.parametrize(
    ("has", "told"), [("one thread", ["fork", True, True]), ("threads", ["spawn", False, True])]
)
def test_a_process_without_threads_is_copied_and_its_copies_end_at_once_when_told(
    has: str, told: list[object], tmp_path: Path
) -> None:
    (tmp_path / "ask.py").write_text(ASKED)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(tmp_path / "ask.py"), has]
    asked = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert json.loads(asked.stdout) == told


def test_where_the_system_does_not_tell_its_threads_nothing_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: str) -> list[str]:
        raise PermissionError

    with monkeypatch.context() as changed:
        changed.setattr(pool.os, "listdir", refused)
        told = [pool._has_one_thread()]
        changed.setattr(pool.sys, "platform", "darwin")
        told.append(pool._has_one_thread())
    assert told == [False, False]
