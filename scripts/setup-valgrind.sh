#!/bin/sh
# Installs valgrind, which only `make bench-check` and `make bench-baseline` need, where it is missing.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

say() { printf 'setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        say "this needs root and there is no sudo: $*" >&2
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
    # Homebrew has it for Linux only; on macOS there is none for today's machines.
    brew install valgrind
else
    say 'no apt-get, dnf, apk or brew here; install valgrind by hand' >&2
    exit 1
fi

has valgrind || { say 'valgrind is still missing' >&2; exit 1; }
