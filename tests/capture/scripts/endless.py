"""Infers until somebody stops it; with PIDS_FILE set, it starts a process that leaves the family and names both."""

import os
import subprocess
import sys
import time

import torch
import without_compiler  # noqa: F401

if "PIDS_FILE" in os.environ:
    sleeper = "import time; time.sleep(600)"
    detached = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
    with open(os.environ["PIDS_FILE"], "w") as file:
        file.write(f"{os.getpid()} {detached.pid}")
model = torch.nn.Linear(4, 4)
while True:
    model(torch.randn(2, 4))
    time.sleep(0.02)
