"""Entry point: ``python torch_runner OPTIONS -- (script.py | -m module) ARGS``, as a folder or a zip file."""

import importlib
import sys

if __name__ == "__main__":
    home = sys.path.pop(0)
    sys.path.append(home)
    if sys.argv[1:2] == ["--attach"]:
        sys.exit(importlib.import_module("stallscope_recorder.attaching").main(sys.argv[2:]))
    sys.exit(importlib.import_module("stallscope_recorder.command").main(sys.argv[1:]))
