"""Infers in two processes that torch.multiprocessing.spawn starts."""

import torch
import torch.multiprocessing as mp
import without_compiler  # noqa: F401


def work(rank: int, steps: int) -> None:
    model = torch.nn.Linear(8, 8)
    for _ in range(steps):
        model(torch.randn(4, 8))


if __name__ == "__main__":
    mp.spawn(work, args=(30,), nprocs=2)
