#!/bin/sh
# Installs valgrind if it is missing. Only `make bench-check` and `make bench-baseline` need it.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

say() { printf 'setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        say "this command needs root, and sudo is not installed: $*" >&2
        exit 1
    fi
}

! has valgrind || exit 0
say 'installing: valgrind'

if has apt-get; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends valgrind
elif has dnf; then
    as_root dnf install -y valgrind
elif has apk; then
    as_root apk add --no-cache valgrind
elif has brew; then
    # Homebrew has valgrind only for Linux. There is no valgrind for current Macs.
    brew install valgrind
else
    say 'found no apt-get, dnf, apk or brew; install valgrind yourself' >&2
    exit 1
fi

has valgrind || { say 'valgrind is still missing' >&2; exit 1; }
