"""Trains so many steps, of which one takes far longer than usual on the last rank; knows nothing of a recorder."""

import os
import statistics
import sys
import time

import torch
import torch.distributed

torch.set_num_threads(1)
steps, slow = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1
ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    torch.distributed.init_process_group("gloo")
if int(os.environ.get("RANK", "0")) != ranks - 1:
    slow = -1
model = torch.nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
lengths = [0.02]
for number in range(steps):
    began = time.perf_counter()
    time.sleep(120 * statistics.median(lengths) if number == slow else 0.02)
    loss = model(torch.randn(16, 32)).sum()
    optimizer.zero_grad()
    loss.backward()
    if ranks > 1:
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
    optimizer.step()
    lengths.append(time.perf_counter() - began)
while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
print("ended by itself", flush=True)
