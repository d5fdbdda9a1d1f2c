#!/usr/bin/env bash
# Builds the desktop packages of this system into dist/: on Linux a relocatable folder as a tarball, and a .deb.
# Usage: packaging/build.sh      (make package sets everything up and calls it)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-.venv/bin/python}
version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
frozen=build/package/stallscope
mkdir -p dist

say() { printf 'package: %s\n' "$*"; }

./packaging/freeze.sh
"$python" packaging/licences.py "$frozen" "$frozen/THIRD-PARTY-LICENSES" build/package/libraries.txt
"$python" -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml --mc-type application \
    --output-file "dist/stallscope-$version.cdx.json" build/package/libraries.txt
cp LICENSE "$frozen/LICENSE"

if [ "$(uname -s)" != Linux ]; then
    say "the folder is $frozen; packaging/README.md says how the installer of this system is made from it"
    exit 0
fi

# ---- the tarball: unpack anywhere, run stallscope in it ------------------------------------------------------------

machine=$(uname -m)
tarball=dist/stallscope-$version-linux-$machine.tar.xz
tar -C build/package --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --transform "s,^stallscope,stallscope-$version," -c stallscope | xz -T0 -2 >"$tarball"
say "$tarball, $(du -m "$tarball" | cut -f 1) MB"

# ---- the Debian package ---------------------------------------------------------------------------------------------

if command -v dpkg-deb >/dev/null; then
    ./packaging/linux/deb.sh "$version"
else
    say "no .deb: dpkg-deb is not installed here"
    ./packaging/check_frozen.sh "$frozen"
fi

# ---- what a download is checked with ---------------------------------------------------------------------------------

(cd dist && find . -type f -name "stallscope*$version*" -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
say "dist/SHA256SUMS and dist/stallscope-$version.cdx.json, the bill of materials"
