"""Ordinary training programs for the CPU, each with one fault: what `measure_trials.py` tries and mends by hand.

usage: python trial_programs.py NAME          trains without end, with the fault
       python trial_programs.py NAME --mend   prints how long a step takes with the fault and without it, in turns
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

Step = Callable[[], None]
Batch = Callable[[], tuple[torch.Tensor, torch.Tensor]]
Reader = Callable[[torch.Tensor], None]
BLOCK_S = 0.4
ROUNDS = 5


def training(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, read: Reader | None = None
) -> Step:
    """A step that trains a model on the next batch."""

    def step() -> None:
        x, y = batch()
        out = model(x)
        loss = functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if read is not None:
            read(out.detach())

    return step


def fixed(rows: int, width: int, classes: int) -> Batch:
    """The same batch each time."""
    batch = torch.randn(rows, width), torch.randint(0, classes, (rows,))
    return lambda: batch


def one_thread(fault: bool) -> Step:
    torch.set_num_threads(1 if fault else 2)
    model = nn.Sequential(
        nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    step = training(model, torch.optim.SGD(model.parameters(), 1e-3), fixed(256, 1024, 10))

    def with_threads() -> None:
        torch.set_num_threads(1 if fault else 2)
        step()

    return with_threads if "--mend" in sys.argv else step


def optimizer_in_a_loop(fault: bool) -> Step:
    torch.set_num_threads(1)
    layers: list[nn.Module] = [nn.Linear(24, 24)]
    for _ in range(80):
        layers += [nn.Tanh(), nn.Linear(24, 24)]
    model = nn.Sequential(*layers)
    return training(model, torch.optim.AdamW(model.parameters(), 1e-4, foreach=not fault), fixed(8, 24, 24))


class Chain(nn.Module):
    """A network whose activation is a formula of many small operators."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        for _ in range(12):
            h = h * torch.sigmoid(h) + 0.1 * torch.tanh(h) - 0.01 * h * h
        return self.last(h)


def not_compiled(fault: bool) -> Step:
    torch.set_num_threads(1)
    model = Chain()
    if not fault:
        model.compile()
    return training(model, torch.optim.SGD(model.parameters(), 1e-3), fixed(512, 64, 10))


def reads_outputs(fault: bool) -> Step:
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128))
    kept: list[list[float]] = []

    def read(out: torch.Tensor) -> None:
        kept[:] = out.tolist()

    return training(
        model, torch.optim.SGD(model.parameters(), 1e-3), fixed(512, 64, 128), read if fault else None
    )


class Rows(Dataset):
    """Rows that are calculated number by number."""

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([math.sin(index * k) * math.cos(k) for k in range(96)]), index % 4


def loader_in_process(fault: bool) -> Step:
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    batches = iter(DataLoader(Rows(), 256, num_workers=0 if fault else 2))
    return training(model, torch.optim.SGD(model.parameters(), 1e-3), lambda: next(batches))


PROGRAMS = {
    each.__name__: each
    for each in (one_thread, optimizer_in_a_loop, not_compiled, reads_outputs, loader_in_process)
}


def seconds(step: Step, steps: int) -> float:
    """How long a step takes, on average of so many."""
    for _ in range(3):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def mend(name: str) -> dict[str, list[float]]:
    """Seconds of a step with the fault and without it, two blocks each in a round."""
    sides = {"A": PROGRAMS[name](True), "B": PROGRAMS[name](False)}
    for step in sides.values():
        seconds(step, 3)
    steps = max(3, min(400, round(BLOCK_S / seconds(sides["A"], 3))))
    taken: dict[str, list[float]] = {"A": [], "B": []}
    for number in range(ROUNDS):
        for side in ("ABBA", "BAAB")[number % 2]:
            taken[side].append(seconds(sides[side], steps))
    return taken


if __name__ == "__main__":
    if "--mend" in sys.argv:
        print(json.dumps({"torch": torch.__version__, **mend(sys.argv[1])}))
    else:
        endless = PROGRAMS[sys.argv[1]](True)
        while True:
            endless()
