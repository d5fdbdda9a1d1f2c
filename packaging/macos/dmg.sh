#!/usr/bin/env bash
# Makes dist/stallscope-VERSION-macos.dmg from build/package/Stallscope.app. UNTESTED: written without a Mac at hand.
# The application is not signed: the first start needs a right-click and "Open".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-.venv/bin/python}
version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
staged=build/package/dmg
rm -rf "$staged"
mkdir -p "$staged" dist
cp -R build/package/Stallscope.app "$staged/"
cp build/package/stallscope/THIRD-PARTY-LICENSES LICENSE "$staged/"
ln -s /Applications "$staged/Applications"
hdiutil create -volname Stallscope -srcfolder "$staged" -ov -format UDZO "dist/stallscope-$version-macos.dmg"
