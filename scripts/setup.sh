#!/usr/bin/env bash
# Sets up everything the program needs: system libraries for Qt, .venv, and the program installed in it.
# Usage: scripts/setup.sh [test|dev|fuzz|package]      run again, it returns at once while pyproject.toml is unchanged.
# PYTHON=/path/to/python3 chooses the interpreter. The libraries are those of packaging/constraints.txt, which were tested.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${1:-}
venv=.venv
constraints=packaging/constraints.txt

say() { printf 'stallscope setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

python_version() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "Python 3.11 or newer is needed, and PYTHON=$PYTHON is $(python_version "$PYTHON" || echo 'no Python')."
        printf '%s\n' "$PYTHON"
        return
    fi
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; python3 here is $(python_version python3 || echo missing). Install a newer one and, if it is not called python3, name it: make setup PYTHON=/path/to/python3.12"
}

# ---- system packages (Debian, Ubuntu) -------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

can_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
}

apt_install() {
    # dpkg wants its own tools, and an ordinary user's PATH lacks them.
    local PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@")
    say "installing system packages: $*"
    as_root "${install[@]}" >/dev/null 2>&1 && return
    as_root apt-get update -qq >/dev/null && as_root "${install[@]}" >/dev/null
}

install_line() {
    if command -v apt-get >/dev/null; then
        printf 'sudo apt-get update && sudo apt-get install -y --no-install-recommends %s' "$*"
    else
        printf 'install what your system calls these Debian packages: %s' "$*"
    fi
}

# library that Qt loads -> Debian package that has it; the first six also without a display
QT_LIBRARIES="
libglib-2.0.so.0 libglib2.0-0
libGL.so.1 libgl1
libEGL.so.1 libegl1
libxkbcommon.so.0 libxkbcommon0
libdbus-1.so.3 libdbus-1-3
libfontconfig.so.1 libfontconfig1
libxcb-cursor.so.0 libxcb-cursor0
libxcb-icccm.so.4 libxcb-icccm4
libxcb-image.so.0 libxcb-image0
libxcb-keysyms.so.1 libxcb-keysyms1
libxcb-render-util.so.0 libxcb-render-util0
libxcb-shape.so.0 libxcb-shape0
libxkbcommon-x11.so.0 libxkbcommon-x11-0
libwayland-cursor.so.0 libwayland-cursor0
libwayland-egl.so.1 libwayland-egl1
"

missing_qt_packages() {
    [ "$(uname -s)" = Linux ] || return 0
    local ldconfig known library package
    ldconfig=$(PATH="$PATH:/sbin:/usr/sbin" command -v ldconfig) || return 0
    known=$("$ldconfig" -p)
    while read -r library package; do
        [ -z "$library" ] || [[ "$known" == *"$library "* ]] || printf '%s ' "$package"
    done <<<"$QT_LIBRARIES"
    # Without any font, text is drawn as boxes.
    [ -n "$(find -L /usr/share/fonts /usr/local/share/fonts "${HOME:-/nonexistent}/.fonts" "${HOME:-/nonexistent}/.local/share/fonts" \
        \( -name '*.ttf' -o -name '*.otf' -o -name '*.ttc' \) -print -quit 2>/dev/null)" ] || printf 'fonts-inter fonts-dejavu-core '
}

# One test drives the window with real mouse and key events, on a screen of its own; without these it is skipped.
missing_test_packages() {
    [ -n "$extra" ] && command -v apt-get >/dev/null || return 0
    command -v Xvfb >/dev/null || printf 'xvfb '
    command -v xdotool >/dev/null || printf 'xdotool '
}

missing_venv_package() {
    local python=$1
    "$python" -c 'import ensurepip' 2>/dev/null ||
        printf '%s ' "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}

# Installs what is missing, or prints the line that does and fails.
ensure_packages() {
    local packages
    read -ra packages <<<"$*"
    [ ${#packages[@]} -gt 0 ] || return 0
    if can_install && apt_install "${packages[@]}"; then
        return 0
    fi
    say "system packages are missing. As an administrator: $(install_line "${packages[@]}")"
    return 1
}

# ---- the virtual environment ----------------------------------------------------------------------------------------

# Its programs name the place where it was made: a venv that was moved or copied is made anew.
is_usable_venv() {
    local made_by
    is_new_enough "$venv/bin/python" || return 1
    made_by=$(sed -n 's/^command = //p' "$venv/pyvenv.cfg" 2>/dev/null)
    [[ -z "$made_by" || "$made_by" == *" $(pwd -P)/$venv" ]]
}

# What an installation depends on: the declared libraries, their tested versions, this script and the interpreter.
stamp_key() {
    "$venv/bin/python" - "$constraints" <<'PYTHON'
import hashlib, pathlib, sys

parts = [pathlib.Path(name).read_bytes() for name in ("pyproject.toml", sys.argv[1], "scripts/setup.sh")]
parts += [sys.version.encode()]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())
PYTHON
}

# An installation is good enough when it was made from this key and includes what is asked for.
is_installed() {
    local key=$1 stamp
    for stamp in $good_enough; do
        [ "$(cat "$venv/.installed-$stamp" 2>/dev/null)" != "$key" ] || return 0
    done
    return 1
}

pip_log=$venv/.pip.log

pip_install() {
    local loudness=(--quiet --progress-bar=off)
    [ ! -t 2 ] || loudness=(--progress-bar=on)
    "$venv/bin/python" -m pip install "${loudness[@]}" --disable-pip-version-check --log "$pip_log" "$@" --editable ".[sql${extra:+,$extra}]"
}

install_tested() {
    # In the environment, so that it holds for what builds the program as well; newer pips have a second name for that.
    PIP_CONSTRAINT="${PIP_CONSTRAINT:+$PIP_CONSTRAINT }$constraints" PIP_BUILD_CONSTRAINT="$constraints" \
        pip_install --only-binary :all:
}

install_newest() {
    say "not all tested versions ($constraints) are there for Python $(python_version "$venv/bin/python") on this system: taking the newest that the program allows"
    pip_install
}

# Whether pip had to try a package index several times: there it would not find other versions either.
is_unreachable() { grep -q 'Retrying (Retry' "$pip_log"; }

# ---- the set-up itself ----------------------------------------------------------------------------------------------

case "$extra" in
    '') good_enough='program test dev package fuzz' ;;
    test) good_enough='test dev package fuzz' ;;
    dev) good_enough='dev package' ;;
    fuzz | package) good_enough=$extra ;;
    *) fail "unknown extra '$extra': nothing, test, dev, fuzz or package" ;;
esac

if is_usable_venv; then
    ensure_packages "$(missing_qt_packages)" || true
else
    # A bare system has no Python at all, and the one of its own packages may be new enough.
    command -v "${PYTHON:-python3}" >/dev/null || ensure_packages python3 python3-venv || true
    python=$(choose_python)
    ensure_packages "$(missing_venv_package "$python") $(missing_qt_packages)" || true
    "$python" -c 'import ensurepip' 2>/dev/null || fail "without the package named above there can be no virtual environment."
    say "making a virtual environment in $venv with Python $(python_version "$python")"
    "$python" -m venv --clear "$venv"
fi

ensure_packages "$(missing_test_packages)" || true

if command -v flock >/dev/null; then
    exec 9>"$venv/.setup-lock"
    flock 9
fi

key=$(stamp_key)
if is_installed "$key"; then
    exit 0
fi

say "installing the program and its libraries into $venv (some minutes the first time)"
rm -f "$pip_log"
if ! install_tested && { is_unreachable || ! install_newest; }; then
    fail "pip could not install the libraries (its own message is above). Check the connection to the package index, then run it again."
fi
if ! "$venv/bin/python" -c 'from PySide6 import QtWidgets' 2>"$venv/.qt-error"; then
    # No stamp: the next call looks again.
    say "Qt cannot be loaded: $(tail -n 1 "$venv/.qt-error")"
    say "so there is no window yet; $venv/bin/stallscope diagnose works without it"
    exit 0
fi
printf '%s\n' "$key" >"$venv/.installed-${extra:-program}"
say "ready: $venv/bin/stallscope"
