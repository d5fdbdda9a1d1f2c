#!/usr/bin/env bash
# Freezes the program into build/package/stallscope: a folder that runs without Python and may lie anywhere.
# Usage: packaging/freeze.sh       PYTHON=... chooses the interpreter that is frozen (.venv otherwise).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
into=build/package

"$python" -c 'import PyInstaller' 2>/dev/null || { echo "PyInstaller is missing: make package sets everything up" >&2; exit 1; }

# PyInstaller reads libraries with objdump and carries Python's own one, which Debian keeps in a package of its own.
if command -v apt-get >/dev/null; then
    packages=()
    command -v objdump >/dev/null || packages+=(binutils)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$("$python" -c 'import sys; print(sys.base_prefix)')" = /usr ]; then
        [ -n "$(find /usr/lib /lib -name "libpython$version.so.1.0" -print -quit)" ] || packages+=("libpython$version")
    fi
    if [ ${#packages[@]} -gt 0 ]; then
        as_root=() && [ "$(id -u)" = 0 ] || as_root=(sudo -n)
        install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}")
        "${install[@]}" >/dev/null 2>&1 || { "${as_root[@]}" apt-get update -qq && "${install[@]}" >/dev/null; } || {
            echo "to freeze the program, install: ${packages[*]}" >&2
            exit 1
        }
    fi
fi

"$python" -m PyInstaller --noconfirm --log-level "${FREEZE_LOG:-ERROR}" --distpath "$into" --workpath "$into/work" packaging/stallscope.spec

if [ "$(uname -s)" = Linux ]; then
    "$python" packaging/linux/unneeded_libraries.py "$into/stallscope" libarrow_substrait libarrow_dataset libarrow_acero libparquet
    # Debugging symbols are half of some compiled libraries. Those in *.libs were rewritten by auditwheel; strip breaks them.
    if command -v strip >/dev/null; then
        find "$into/stallscope/_internal" -type f \( -name '*.so' -o -name '*.so.*' \) ! -path '*.libs/*' -exec strip --strip-unneeded {} +
        find "$into/stallscope" -type f -name 'libicudata.so.*' -exec "$python" packaging/linux/unneeded_icu_data.py {} +
    fi
fi
du -sm "$into/stallscope" | awk '{ print "frozen: " $2 ", " $1 " MB" }'
