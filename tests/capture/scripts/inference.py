"""Calls a model in a loop without gradients, then leaves through sys.exit."""

import sys

import torch
import without_compiler  # noqa: F401

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval()
with torch.no_grad():
    for _ in range(30):
        model(torch.randn(8, 64))
print("finished all of it")
sys.exit(0)
