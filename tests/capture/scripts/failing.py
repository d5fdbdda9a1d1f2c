"""Fails in the middle of the recorded steps."""

import torch
import without_compiler  # noqa: F401

model = torch.nn.Linear(4, 4)
for step in range(20):
    model(torch.randn(2, 4))
    if step == 8:
        raise ValueError("shape mismatch in layer 3")
