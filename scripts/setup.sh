#!/bin/sh
# Installs what building, running and testing need beside Rust, where it is missing. Changes nothing that is there:
# no service is stopped, disabled or configured.
set -eu

# Debian keeps the programs of PostgreSQL out of the path, and Fedora that of MariaDB's server.
has() {
    command -v "$1" >/dev/null 2>&1 && return
    case "$1" in
        postgres) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ;;
        mariadbd) [ -x /usr/sbin/mariadbd ] || [ -x /usr/libexec/mariadbd ] ;;
        *) false ;;
    esac
}

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

if ! has cargo; then
    say 'Rust is missing. Install rustup as https://rustup.rs tells; it brings the toolchain of rust-toolchain.toml.' >&2
    exit 1
fi

missing=''
has redis-server || missing="$missing redis-server"
has python3 || missing="$missing python3"
has cc || missing="$missing cc"
# For the tests of `sql` nodes: each starts a private server.
has postgres || missing="$missing postgres"
has mariadbd && has my_print_defaults || missing="$missing mariadbd"
[ -n "$missing" ] || exit 0
say "installing:$missing"

# The package of a program, by package manager.
package() {
    case "$1:$2" in
        apt:redis-server) echo redis-server ;;
        dnf:postgres) echo postgresql-server ;;
        *:postgres) echo postgresql ;;
        # The programs alone: no service comes with them, and nothing is started.
        apt:mariadbd) echo 'mariadb-server-core mariadb-client-core' ;;
        dnf:mariadbd) echo mariadb-server ;;
        apk:mariadbd) echo 'mariadb mariadb-common' ;;
        *:mariadbd) echo mariadb ;;
        apt:cc) echo 'gcc libc6-dev' ;;
        apk:cc) echo 'gcc musl-dev' ;;
        dnf:cc) echo gcc ;;
        *:redis-server) echo redis ;;
        *) echo "$2" ;;
    esac
}

packages() {
    for program in $missing; do package "$1" "$program"; done
}

# Package names have no blanks in them, so they are split on purpose below.
# shellcheck disable=SC2046
if has apt-get; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(packages apt)
elif has dnf; then
    # Newer releases have Valkey in the place of Redis, under both names.
    as_root dnf install -y $(packages dnf) ||
        as_root dnf install -y $(packages dnf | sed 's/^redis$/valkey-compat-redis/')
elif has apk; then
    as_root apk add --no-cache $(packages apk)
elif has brew; then
    case "$missing" in
        *' cc'*) say 'a C compiler is missing: run `xcode-select --install` (macOS), then this again' >&2; exit 1 ;;
    esac
    # Homebrew refuses to work as root.
    brew install $(packages brew)
else
    say "no apt-get, dnf, apk or brew here; install by hand:$missing" >&2
    exit 1
fi

for program in $missing; do
    has "$program" || { say "$program is still missing" >&2; exit 1; }
done
