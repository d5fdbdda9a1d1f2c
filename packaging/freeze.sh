#!/usr/bin/env bash
# Freezes the program into build/package/stallscope: a folder that runs without Python and may lie anywhere.
# Usage: packaging/freeze.sh       PYTHON=... chooses the interpreter that is frozen (.venv otherwise).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
into=build/package

"$python" -c 'import PyInstaller' 2>/dev/null || { echo "PyInstaller is missing: make package sets everything up" >&2; exit 1; }
"$python" -m PyInstaller --noconfirm --log-level "${FREEZE_LOG:-WARN}" --distpath "$into" --workpath "$into/work" packaging/stallscope.spec

if [ "$(uname -s)" = Linux ]; then
    "$python" packaging/linux/unneeded_libraries.py "$into/stallscope" libarrow_substrait libarrow_dataset libarrow_acero
    # Debugging symbols are half of some compiled libraries. Those in *.libs were rewritten by auditwheel; strip breaks them.
    if command -v strip >/dev/null; then
        find "$into/stallscope/_internal" -type f \( -name '*.so' -o -name '*.so.*' \) ! -path '*.libs/*' -exec strip --strip-unneeded {} +
    fi
fi
du -sm "$into/stallscope" | awk '{ print "frozen: " $2 ", " $1 " MB" }'
