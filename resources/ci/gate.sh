#!/bin/sh
# Sets a recording against a baseline or another recording, and writes what a build server shows.
# Exits as `stallscope compare` does: 0 passed, 1 failed, 2 bad input, 3 not decided.
#
# STALLSCOPE_AFTER     the recording of this build: a file, a folder of ranks, or an archive
# STALLSCOPE_BEFORE    baseline:NAME, or another recording        (default: baseline:main)
# STALLSCOPE_LIMITS    limits, one a line, such as 5% or launches=0
# STALLSCOPE_GATES     a TOML file with limits, kept in the repository
# STALLSCOPE_STORE     the file that baselines are kept in        (default: the user's data folder)
# STALLSCOPE_SAVE      true: keep this recording as the baseline when it passes, or when there is none yet
# STALLSCOPE_REASON    why a slower recording is kept as the baseline nevertheless
# STALLSCOPE_REVISION  the commit that was recorded
# STALLSCOPE_OUT       folder for stallscope.html, .md and .xml   (default: stallscope-report)
set -u

before=${STALLSCOPE_BEFORE:-baseline:main}
after=${STALLSCOPE_AFTER:?name the recording of this build in STALLSCOPE_AFTER}
out=${STALLSCOPE_OUT:-stallscope-report}
store=${STALLSCOPE_STORE:-}
reason=${STALLSCOPE_REASON:-}
mkdir -p "$out" || exit 2

save() {
    set -- baseline save "${before#baseline:}" "$after"
    [ -z "$store" ] || set -- "$@" --store "$store"
    [ -z "${STALLSCOPE_REVISION:-}" ] || set -- "$@" --revision "$STALLSCOPE_REVISION"
    [ -z "$reason" ] || set -- "$@" --reason "$reason"
    stallscope "$@"
}

known() {
    set -- baseline list
    [ -z "$store" ] || set -- "$@" --store "$store"
    stallscope "$@" 2>/dev/null | cut -d ' ' -f 1 | grep -qxF -e "${before#baseline:}"
}

case $before in baseline:*) kept=true ;; *) kept=false ;; esac
if [ "$kept" = true ] && ! known; then
    if [ "${STALLSCOPE_SAVE:-}" = true ]; then
        save
        exit
    fi
    echo "stallscope: there is no $before yet: save one from the main branch (STALLSCOPE_SAVE=true)" >&2
    exit 3
fi

set -- compare "$before" "$after" \
    --html "$out/stallscope.html" --markdown "$out/stallscope.md" --junit "$out/stallscope.xml"
[ -z "$store" ] || set -- "$@" --store "$store"
[ -z "${STALLSCOPE_GATES:-}" ] || set -- "$@" --gates "$STALLSCOPE_GATES"
while IFS= read -r limit; do
    [ -z "$limit" ] || set -- "$@" --fail-on-regression "$limit"
done <<LIMITS
${STALLSCOPE_LIMITS:-}
LIMITS
stallscope "$@"
code=$?

if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/stallscope.md" ]; then
    cat "$out/stallscope.md" >>"$GITHUB_STEP_SUMMARY"
fi
if [ "${STALLSCOPE_SAVE:-}" = true ] && [ "$kept" = true ]; then
    if [ "$code" = 0 ] || { [ "$code" = 1 ] && [ -n "$reason" ]; }; then
        save && code=0
    fi
fi
exit "$code"
