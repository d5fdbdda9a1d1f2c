"""Trains until it was told to end by a file, on any number of ranks; knows nothing of a recorder."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed

torch.set_num_threads(1)
ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = 0
over = torch.zeros(1)
while not over.item():
    loss = model(torch.randn(16, 32)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
    Path(sys.argv[1] + ".begun").touch()
    over.fill_(float(Path(sys.argv[1]).exists()))
    if ranks > 1:
        torch.distributed.all_reduce(over)
    time.sleep(0.01)
print("ended by itself after", steps, "steps", flush=True)
