"""Multiplies matrices: no module, optimizer or DataLoader anywhere."""

import torch
import without_compiler  # noqa: F401

a = torch.randn(50, 50)
for _ in range(20):
    a = a @ a
    a /= a.norm()
