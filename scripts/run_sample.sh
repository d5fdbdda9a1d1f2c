#!/usr/bin/env bash
# Opens the program on a recording: the bundled sample, or the paths given.
# Without a display it says so, prints the diagnosis, writes stallscope-sample.png and exits 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
picture=stallscope-sample.png

has_display() {
    case "${QT_QPA_PLATFORM:-}" in offscreen | minimal*) return 1 ;; esac
    if [ "$(uname -s)" = Linux ]; then
        [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || return 1
    fi
    # A stale DISPLAY (an ended ssh session, say) makes Qt abort: try in a process of its own.
    { "$python" -c 'from PySide6.QtGui import QGuiApplication; QGuiApplication([])'; } >/dev/null 2>&1
}

if [ $# -eq 0 ]; then
    set -- "$("$python" -c '
import tomllib, resources

listed = tomllib.loads(resources.path("samples/samples.toml").read_text("utf-8"))
print(resources.path("samples/" + listed["sample"][0]["path"]))
')"
fi

if has_display; then
    exec "$python" -m viewer "$@"
fi

echo "No display here, so no window: this is the diagnosis of $(basename "$1"), and its picture goes to $picture."
echo
.venv/bin/stallscope diagnose "$@"
QT_QPA_PLATFORM=offscreen "$python" -m viewer.screenshot "$@" --out "$picture"
echo
echo "Wrote $picture. With a display, 'make run' opens the window."
