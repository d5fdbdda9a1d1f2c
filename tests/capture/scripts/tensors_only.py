"""Multiplies matrices: no module, optimizer or DataLoader anywhere."""

import without_compiler  # noqa: F401 isort: skip - before torch, with which a whole run begins

import torch

a = torch.randn(50, 50)
for _ in range(20):
    a = a @ a
    a /= a.norm()
