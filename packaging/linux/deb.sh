#!/usr/bin/env bash
# Makes dist/stallscope_VERSION_ARCHITECTURE.deb from the frozen folder, and checks it.
# Usage: packaging/linux/deb.sh VERSION      (packaging/build.sh freezes and calls it)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=$1
frozen=build/package/stallscope
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)
mkdir -p dist

filled() { # the template $1 with its facts
    sed -e "s/@VERSION@/$version/g; s/@DATE@/$date/g" "$1"
}

root=build/package/debian
rm -rf "$root"
install -d "$root/DEBIAN" "$root/opt" "$root/usr/bin"
cp -a "$frozen" "$root/opt/stallscope"
find "$root/opt/stallscope" -type f -exec chmod 644 {} +
chmod 755 "$root/opt/stallscope/stallscope"
ln -s /opt/stallscope/stallscope "$root/usr/bin/stallscope"

place() { install -D -m 644 "$1" "$root/usr/share/$2"; }
written() { install -d "$(dirname "$root/usr/share/$1")" && cat >"$root/usr/share/$1"; }
place resources/desktop/stallscope.desktop applications/stallscope.desktop
place resources/desktop/stallscope.xml mime/packages/stallscope.xml
place resources/icons/stallscope.svg icons/hicolor/scalable/apps/stallscope.svg
for icon in resources/icons/stallscope-[0-9]*.png; do
    size=$(basename "$icon" .png) && size=${size#stallscope-}
    place "$icon" "icons/hicolor/${size}x$size/apps/stallscope.png"
done
filled packaging/linux/stallscope.metainfo.xml.in | written metainfo/io.github.stallscope.stallscope.metainfo.xml
filled packaging/linux/stallscope.1.in | gzip -9n | written man/man1/stallscope.1.gz
place packaging/linux/lintian-overrides lintian/overrides/stallscope
{
    sed '/@LICENSE@/,$d' packaging/linux/copyright.in
    echo 'License: MIT'
    tail -n +5 LICENSE | sed 's/^$/./; s/^/ /'
    printf '\nFiles: opt/stallscope/_internal/*\nCopyright: the authors of the libraries\nLicense: various\n'
    printf ' /opt/stallscope/THIRD-PARTY-LICENSES has the licence of each bundled library.\n'
} | written doc/stallscope/copyright
{
    printf 'stallscope (%s) unstable; urgency=medium\n\n  * CHANGELOG.md of the source says what is new.\n\n' "$version"
    printf ' -- Stallscope contributors <stallscope@users.noreply.github.com>  %s\n' "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n | written doc/stallscope/changelog.gz

# The C library that the newest part needs.
glibc=$(find "$root/opt" -type f \( -name '*.so*' -o -name stallscope \) -exec readelf -V {} + 2>/dev/null |
    grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
filled packaging/linux/control.in | sed -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/; s/@GLIBC@/${glibc#GLIBC_}/" \
    -e "s/@SIZE@/$(du -sk "$root/opt" "$root/usr" | awk '{ sum += $1 } END { print sum }')/" |
    sed -e ':join; /^Depends:/ { $!{ N; s/\n / /; t join } }' >"$root/DEBIAN/control"
(cd "$root" && find opt usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -type d -exec chmod 755 {} +
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
deb=dist/stallscope_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz -z2 --build "$root" "$deb" >/dev/null
echo "package: $deb, $(du -m "$deb" | cut -f 1) MB"

./packaging/check_package.sh "$deb" "$root"
./packaging/check_frozen.sh "$root/opt/stallscope"
