#!/usr/bin/env bash
# Checks that the frozen folder does what the source does, without a Python and from any place.
# Usage: packaging/check_frozen.sh [FOLDER]      build/package/stallscope otherwise, frozen first when it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:-build/package/stallscope}
[ $# -gt 0 ] || ./packaging/freeze.sh
most_mb=285

place=$(mktemp -d)
running=
finish() {
    [ -z "$running" ] || { kill -KILL "$running" && wait "$running"; } 2>/dev/null || true
    rm -rf "$place" || true  # what it started may still be ending
}
trap finish EXIT
fail() { echo "frozen program: $*" >&2; exit 1; }

# Elsewhere, under a name with a space and an umlaut; no PATH, no home but an empty one.
elsewhere="$place/an other pläce"
cp -a "$folder" "$elsewhere"
mkdir -m 700 "$place/home" "$place/run"
program=(env -i LC_ALL=C.UTF-8 PATH=/nonexistent HOME="$place/home" XDG_RUNTIME_DIR="$place/run" QT_QPA_PLATFORM=offscreen
    "$elsewhere/stallscope")
frozen() { "${program[@]}" "$@"; }
source_tree() { env LC_ALL=C.UTF-8 HOME="$place/home" .venv/bin/python -m viewer "$@"; }

size=$(find "$elsewhere" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum / 1048576 }')
[ "$size" -le "$most_mb" ] || fail "$size MB, and $most_mb is the limit"
[ -z "$(find "$elsewhere" -type l -lname '/*')" ] || fail "it has links to places outside"

diff <(source_tree self-check) <(frozen self-check) || fail "its self-check differs from that of the source (< source, > frozen)"

samples=0
for sample in resources/samples/*; do
    case $sample in *.toml | */_*) continue ;; esac
    diff <(source_tree diagnose "$sample") <(frozen diagnose "$sample") || fail "it diagnoses $sample in another way"
    samples=$((samples + 1))
done
sample=$(ls -d resources/samples/*.sqlite | head -n 1)
diff <(source_tree query "$sample" cuda_gpu_kern_sum) <(frozen query "$sample" cuda_gpu_kern_sum) || fail "it answers a question in another way"
frozen convert "$sample" --to parquet "$place/events.parquet" >/dev/null || fail "it does not write Parquet"

# What other interpreters run must be there as source text.
.venv/bin/python "$elsewhere/_internal/viewer/capture/torch_runner" --help >/dev/null || fail "the recorder does not start"
[ -s "$elsewhere/_internal/viewer/capture/process_tree.py" ] || fail "the text of process_tree is missing"

# A window, and a second start that hands its file over and ends.
"${program[@]}" "$sample" 2>"$place/said" &
running=$!
for _ in $(seq 100); do
    [ -z "$(find "$place/run/stallscope" -type s 2>/dev/null)" ] || break
    kill -0 "$running" 2>/dev/null || fail "no window opens: $(cat "$place/said")"
    sleep 0.1
done
timeout 20 "${program[@]}" "file://$PWD/$sample" || fail "a second start does not hand its file over: $(cat "$place/said")"
kill -0 "$running" 2>/dev/null || fail "the window closed: $(cat "$place/said")"

echo "frozen program: $size MB; self-check and the diagnosis of $samples samples are those of the source"
