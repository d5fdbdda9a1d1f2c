"""What runs on the other side: one POSIX shell script, sent along with every request and never stored there.

It needs ``sh`` and the tools that every Unix has. Requests are a verb and its arguments; whatever a login shell prints
first ends with a marked line. A program that it starts belongs to no connection: it goes on when one breaks.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence

MARKED = b"\x1eSTALLSCOPE\n"
MARK = "STALLSCOPE_CAPTURE"
FOLDER_PREFIX = "stallscope."

PREPARED = r"""case $setup in
"") env "$@" ;;
"conda run "*|"mamba run "*|"micromamba run "*|"uv run"*|"poetry run"*|"pixi run"*)
    eval "$setup env \"\$@\"" ;;
*)
    shell=$(command -v bash) || shell=sh
    "$shell" -l -c 'eval "$1" || exit 125; shift; exec "$@"' "$shell" "$setup" env "$@" ;;
esac
"""
"""Runs the words that follow in the environment that the line ``$setup`` prepares."""

_KEEPER = rf"""
dir=$1 job=$2 setup=$3; shift 3
trap "" HUP
echo $$ > "$dir/pid.$job"
{PREPARED.strip()}
: > "$dir/rc.$job=$?"
"""

SCRIPT = rf"""
keeper={shlex.quote(_KEEPER)}
"""
SCRIPT += r"""
verb=$1; shift
printf '\036STALLSCOPE\n'
marked() { grep -l "STALLSCOPE_CAPTURE=$1" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'; }
ended() { set -- "$dir/rc.$job="*; [ -e "$1" ] || ! kill -0 "$(cat "$dir/pid.$job" 2>/dev/null)" 2>/dev/null; }
base_of() { case $1 in "") echo "${TMPDIR:-/tmp}" ;; "~"|"~/"*) echo "$HOME${1#?}" ;; *) echo "$1" ;; esac; }
of_queue() { [ -e "$dir/queue" ] && command -v scancel >/dev/null; }
case $verb in
make)
    umask 077
    base=$(base_of "$1")
    dir=$(mktemp -d "$base/stallscope.XXXXXXXX") || exit 4
    mkdir "$dir/out" && printf '%s\n' "$2" > "$dir/owner" || { rm -rf -- "$dir"; exit 4; }
    printf '%s\n' "$dir" ;;
ours)
    base=$(base_of "$1")
    for dir in "$base"/stallscope.????????; do
        read -r id pid 2>/dev/null < "$dir/owner" || continue
        [ "$id" != "$2" ] || printf '%s %s\n' "$pid" "$dir"
    done ;;
put)
    umask 077; cat > "$1" ;;
has)
    command -v -- "$1" >/dev/null ;;
start)
    dir=$1 job=$2 folder=$3 setup=$4; shift 4
    if [ -n "$folder" ]; then cd -- "$folder" || exit 3; fi
    : > "$dir/output.$job" || exit 4
    # Without & where that can be: what a shell puts into the background is deaf to interrupts for ever.
    if setsid --fork true 2>/dev/null; then
        setsid --fork sh -c "$keeper" stallscope "$dir" "$job" "$setup" "$@" </dev/null >>"$dir/output.$job" 2>&1
    else
        new=nohup; command -v setsid >/dev/null && new=setsid
        $new sh -c "$keeper" stallscope "$dir" "$job" "$setup" "$@" </dev/null >>"$dir/output.$job" 2>&1 &
    fi
    tries=0
    until [ -s "$dir/pid.$job" ]; do
        sleep 0.05; tries=$((tries+1))
        [ $tries -lt 200 ] || { echo "it did not start" >&2; exit 4; }
    done ;;
follow)
    dir=$1 job=$2 from=$3
    if ended; then tail -c "+$from" "$dir/output.$job"; exit 0; fi
    exec 3<&0
    tail -c "+$from" -f "$dir/output.$job" & reader=$!
    cat <&3 >/dev/null 2>&1 & line=$!
    while kill -0 $reader 2>/dev/null && kill -0 $line 2>/dev/null; do
        if ended; then sleep 0.1; break; fi
        sleep 0.1
    done
    kill $reader $line 2>/dev/null ;;
state)
    dir=$1 job=$2
    wc -c < "$dir/output.$job" || exit 5
    set -- "$dir/rc.$job="*
    if [ -e "$1" ]; then printf '%s\n' "${1##*=}"; elif ended; then echo gone; else echo running; fi ;;
finish)
    : > "$1/finish" ;;
interrupt)
    dir=$2
    if of_queue; then scancel --signal=INT --name="${dir##*/}"; else kill -INT $(marked "$1") 2>/dev/null; fi ;;
kill)
    dir=$1 mark=$2 tries=0
    for pid in "$dir"/pid.*; do [ ! -e "$pid" ] || kill -KILL "-$(cat "$pid")" 2>/dev/null; done
    while [ -n "$(marked "$mark")" ] && [ $tries -lt 50 ]; do
        kill -KILL $(marked "$mark") 2>/dev/null; sleep 0.1; tries=$((tries+1))
    done
    if of_queue; then
        scancel --name="${dir##*/}"; tries=0
        while [ -n "$(squeue --noheader --name="${dir##*/}" 2>/dev/null)" ] && [ $tries -lt 50 ]; do
            sleep 0.2; tries=$((tries+1))
        done
    fi
    [ -z "$(marked "$mark")" ] ;;
alive)
    [ -n "$(marked "$1")" ] ;;
names)
    ls -1A "$1" ;;
list)
    [ -e "$1" ] || { echo "there is no such file or folder" >&2; exit 6; }
    if stat -c %s / >/dev/null 2>&1; then set -- "$1" "$2" -c '%s %Y %F|%n'; else set -- "$1" "$2" -f '%z %m %HT|%N'; fi
    find -H "$1" -maxdepth "$2" ! -path "$1/*/.*" ! -path "$1/.*" -exec stat -L "$3" "$4" {} + ;;
send)
    if [ "$3" = packed ]; then tail -c "+$2" -- "$1" | gzip -1 -c; else tail -c "+$2" -- "$1"; fi ;;
digest)
    [ -r "$1" ] || { echo "it cannot be read" >&2; exit 6; }
    wc -c < "$1"
    if command -v sha256sum >/dev/null; then sha256sum < "$1"
    elif command -v shasum >/dev/null; then shasum -a 256 < "$1"
    elif command -v openssl >/dev/null; then openssl dgst -r -sha256 < "$1"
    else echo -; fi ;;
remove)
    case $1 in */stallscope.????????) rm -rf -- "$1" ;; esac ;;
run)
    "$@" ;;
packed)
    "$@" | gzip -1 -c ;;
esac
"""


def far_words(verb: str, *arguments: str) -> list[str]:
    """The words that carry a request out, wherever they are run."""
    return ["sh", "-c", SCRIPT, "stallscope", verb, *arguments]


def far_line(words: Sequence[str]) -> str:
    """One line for a login shell that may be sh, bash, zsh, fish or csh, and reads it as these words.

    csh and fish read backslashes, exclamation marks and line breaks inside quotes in their own way: words that hold
    any travel encoded.
    """
    line = shlex.join(words)
    if not any(letter in line for letter in "\\!\n\r"):
        return line
    code = base64.b64encode(line.encode("utf-8", "surrogateescape")).decode()
    return f"sh -c 'eval \"$(echo {code} | base64 -d)\"'"
