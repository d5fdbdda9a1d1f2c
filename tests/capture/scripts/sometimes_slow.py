"""Trains so many steps, of which those named are slow on purpose; knows nothing of a recorder."""

import sys
import time

import torch

torch.set_num_threads(1)
steps, slow = int(sys.argv[1]), {int(each) for each in sys.argv[2:]}
model = torch.nn.Linear(32, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(steps):
    time.sleep(2.0 if number in slow else 0.004)
    loss = model(torch.randn(16, 32)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ended by itself", flush=True)
