"""Small memory snapshots, laid out as torch saves them."""

from __future__ import annotations

from typing import Any

FORWARD = ({"name": "forward", "filename": "/env/site-packages/torch/nn/modules/linear.py", "line": 125},)
OWN = ({"name": "train", "filename": "/home/me/train.py", "line": 7},)
LOSS = ({"name": "cross_entropy", "filename": "/env/site-packages/torch/nn/functional.py", "line": 9},)
OPTIMIZER = ({"name": "_init_group", "filename": "/env/site-packages/torch/optim/adam.py", "line": 182},)
PLACED = ({"name": "convert", "filename": "/env/site-packages/torch/nn/modules/module.py", "line": 1370},)


class Snapshot:
    """One device whose history and segments are told in a few lines; sizes in bytes, times in us."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.segments: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def event(
        self, action: str, address: int, size: int, time: int, frames: tuple[Any, ...] = (), **more: int
    ) -> None:
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": time,
                "frames": list(frames),
                **more,
            }
        )

    def segment(self, address: int, *blocks: tuple[int, bool]) -> None:
        """A segment of blocks, each its size and whether it is held."""
        at, listed = address, []
        for size, held in blocks:
            state = "active_allocated" if held else "inactive"
            listed.append({"address": at, "size": size, "requested_size": size, "state": state, "frames": []})
            at += size
        self.segments.append(
            {"device": 0, "address": address, "total_size": at - address, "stream": 0, "blocks": listed}
        )

    def step(self, number: int, start: int, end: int) -> None:
        for stage, time in (("START", start), ("END", end)):
            self.annotations.append(
                {"stage": stage, "name": f"ProfilerStep#{number}", "device": 0, "time_us": time}
            )

    def content(self) -> dict[str, Any]:
        return {
            "segments": self.segments,
            "device_traces": [self.events],
            "external_annotations": self.annotations,
        }
