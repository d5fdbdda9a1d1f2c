#!/usr/bin/env bash
# Checks a .deb and the folder it was made from with the tools of the desktop and of Debian.
# Usage: packaging/check_package.sh PACKAGE.deb FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deb=$1 root=$2
say() { printf 'check: %s\n' "$*"; }
status=0

tools="desktop-file-validate:desktop-file-utils appstreamcli:appstream update-mime-database:shared-mime-info lintian:lintian readelf:binutils"
missing=()
for tool in $tools; do
    command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing ${missing[*]}"
    install_them() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1; }
    install_them || { apt-get update -qq >/dev/null && install_them; } || true
fi

# Runs a check, or says that its tool is missing.
check() {
    local tool=$1
    if ! command -v "$tool" >/dev/null; then
        say "SKIPPED: $tool is not installed"
    elif "$@" >"$log" 2>&1; then
        say "$tool passed"
    else
        cat "$log"
        say "$tool FAILED"
        status=1
    fi
}
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT

check desktop-file-validate "$root/usr/share/applications/stallscope.desktop"
check appstreamcli validate --no-net "$root"/usr/share/metainfo/*.xml
mkdir -p "$work/mime/packages"
cp "$root/usr/share/mime/packages/stallscope.xml" "$work/mime/packages/"
[ ! -f /usr/share/mime/packages/freedesktop.org.xml ] || cp /usr/share/mime/packages/freedesktop.org.xml "$work/mime/packages/"
XDG_DATA_HOME=$work check update-mime-database "$work/mime"
if command -v update-mime-database >/dev/null && [ -s "$log" ]; then
    cat "$log"
    status=1
fi
check lintian --fail-on error --tag-display-limit 0 --suppress-tags bad-distribution-in-changes-file "$deb"

# Every library that something in the folder needs is in it, or belongs to a declared dependency.
if command -v dpkg-query >/dev/null && command -v readelf >/dev/null; then
    depends=$(sed -n 's/^Depends: //p' "$root/DEBIAN/control" | sed 's/([^)]*)//g' | tr ',|' '  ')
    find "$root/opt" -type f \( -name '*.so*' -o -name stallscope \) -exec readelf -d {} + 2>/dev/null |
        sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u >"$work/needed"
    while read -r library; do
        [ -z "$(find "$root/opt" -name "$library" -print -quit)" ] || continue
        owners=$(dpkg-query -S "*/$library" 2>/dev/null | cut -d : -f 1 | sort -u)
        declared=
        for owner in $owners; do
            [[ " $depends " != *" $owner "* ]] || declared=yes
        done
        if [ -z "$owners" ]; then
            say "SKIPPED: no package here has $library"
        elif [ -z "$declared" ]; then
            say "$library of $(echo $owners) is needed and not declared"
            status=1
        fi
    done <"$work/needed"
    say "$(wc -l <"$work/needed") needed libraries are carried or declared"
fi
exit "$status"
