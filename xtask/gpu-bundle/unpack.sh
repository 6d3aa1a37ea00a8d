#!/bin/sh
# Unpacks the bundle's programs into bin/ beside this script, once.
set -eu
cd "$(dirname "$0")"
[ -d bin ] && exit 0
# tar needs xz for this, which not every machine has.
tar -xJf programs.tar.xz 2>/dev/null || python3 -m tarfile -e programs.tar.xz .
