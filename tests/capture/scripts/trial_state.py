"""Trains for ever, and writes down for each step how torch, the optimizer and the loader were set at that moment."""

import gc
import json
import os
import pathlib
import sys

import torch

WIDTH = int(os.environ.get("WIDTH", "8"))
FAILS_WITH = os.environ.get("FAILS_WITH", "")
SETS_THREADS = bool(os.environ.get("SETS_THREADS"))
COLLECTS = bool(os.environ.get("COLLECTS"))
STEPS = int(os.environ.get("STEPS", "1000000"))


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        return torch.full(
            (WIDTH * (1 + index // 16 % 2 if os.environ.get("GROWS") else 1),), float(index % 97)
        )


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        autocast = torch.is_autocast_enabled("cpu")
        state["autocast"] = autocast
        if FAILS_WITH == "autocast" and autocast:
            raise RuntimeError("no kernel for BFloat16\nsecond line")
        return self.layer(self.dropout(x.unsqueeze(-1) / 97)).sum()


state = {}
torch.manual_seed(7)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False, lr=1e-3)
loader = torch.utils.data.DataLoader(Numbers(), batch_size=1)
pathlib.Path(os.environ["LOG"]).write_text("")


def note(**more):
    group = optimizer.param_groups[0]
    state.update(
        threads=torch.get_num_threads(),
        foreach=group["foreach"],
        fused=group["fused"],
        collects=gc.isenabled(),
        compiled=model._compiled_call_impl is not None,
        workers=loader.num_workers,
        omp=os.environ.get("OMP_NUM_THREADS"),
        plain=[name for name in ("item", "__float__") if name in vars(torch.Tensor)] == [],
        step_is_own="step" not in vars(optimizer),
        **more,
    )
    with open(os.environ["LOG"], "a") as log:
        log.write(json.dumps(state) + "\n")


usual_threads = torch.get_num_threads()
try:
    for number, batch in enumerate(loader):
        if number == STEPS:
            sys.exit(int(os.environ.get("EXIT_CODE", "0")))
        if FAILS_WITH == "threads" and torch.get_num_threads() != usual_threads:
            raise ValueError("another number of threads")
        if SETS_THREADS:
            torch.set_num_threads(usual_threads)
        optimizer.zero_grad(set_to_none=False)
        loss = model(batch)
        loss.backward()
        weight = float(model.layer.weight.detach().sum())
        optimizer.step()
        if COLLECTS:
            cycle = []
            cycle.append(cycle)
            del cycle
            state["found"] = gc.collect()
        note(value=loss.item(), batch=float(batch[0][0]), zeroed=model.layer.weight.grad is not None)
        state["weight"] = weight
finally:
    note(end=True)
