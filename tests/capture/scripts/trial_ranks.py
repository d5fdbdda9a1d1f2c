"""Trains on two ranks with DistributedDataParallel, sums up two backward passes a step, and notes down each step."""

import json
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=False)
log = f"{os.environ['LOG']}.{rank}"
while True:
    optimizer.zero_grad()
    syncs = []
    for _ in range(2):
        loss = model(torch.randn(4, 16)).square().mean()
        syncs.append(model.require_backward_grad_sync)
        loss.backward()
    optimizer.step()
    with open(log, "a") as file:
        file.write(json.dumps({"syncs": syncs, "foreach": optimizer.param_groups[0]["foreach"]}) + "\n")
