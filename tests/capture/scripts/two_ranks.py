"""Starts its arguments as the two ranks of a distributed run, as torchrun does, but without loading torch itself."""

import os
import socket
import subprocess
import sys

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
run = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[1:]], env={**run, "RANK": rank, "LOCAL_RANK": rank})
    for rank in ("0", "1")
]
sys.exit(max(rank.wait() for rank in ranks))
