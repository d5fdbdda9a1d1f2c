"""Trains in two processes that torch.multiprocessing.spawn starts."""

import torch
import torch.multiprocessing as mp


def work(rank: int, steps: int) -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(work, args=(30,), nprocs=2)
