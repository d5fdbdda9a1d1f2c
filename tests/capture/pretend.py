"""The sample scripts as requests, what their recordings name, and Nsight tools that only pretend."""

from __future__ import annotations

import gzip
import json
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from viewer.capture.request import CaptureRequest, Target, TargetKind

SCRIPTS = Path(__file__).parent / "scripts"


def script_request(
    name: str, out: Path, *arguments: str, python: str = sys.executable, **environment: str
) -> CaptureRequest:
    """A request for one of the sample scripts."""
    target = Target(TargetKind.SCRIPT, str(SCRIPTS / name), arguments, python, environment=dict(environment))
    return CaptureRequest(target=target, out=str(out))


def lines_of_training() -> dict[str, tuple[str, int]]:
    """Where training.py calls what the recorder names."""
    script = SCRIPTS / "training.py"
    lines = script.read_text("utf-8").splitlines()
    called = {
        "data": "in DataLoader(",
        "forward: Sequential": "model(inputs)",
        "backward": "loss.backward()",
        "optimizer": "optimizer.step()",
    }
    return {
        name: (str(script), next(number for number, line in enumerate(lines, 1) if text in line))
        for name, text in called.items()
    }


def annotations(path: Path) -> Counter[str]:
    """How often each range that the recorder marked stands in a recording of torch."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    marked = (event["name"].split("#")[0] for event in events if event.get("cat") == "user_annotation")
    return Counter(name for name in marked if name != "Python GC")  # comes whenever enough garbage lies about


class PretendTools:
    """Executables that write their arguments down and behave as a small Python body says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls.jsonl"
        folder.mkdir()

    def add(self, name: str, body: str = "") -> Path:
        """``body`` runs with ``argv`` (without the name) and the modules os and sys."""
        path = self.folder / name
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            "argv = sys.argv[1:]\n"
            f"open({str(self.log)!r}, 'a').write(json.dumps([{name!r}, *argv]) + '\\n')\n" + body,
            encoding="utf-8",
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def calls(self, name: str) -> list[list[str]]:
        """Argument lists of every call so far, the name left out."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [call[1:] for call in map(json.loads, lines) if call[0] == name]


def alive(pid: int) -> bool:
    """Whether a process still runs: one that is dead and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
