#!/bin/sh
# Installs the programs, besides Rust, that building, running and testing need, if they are missing. Does not change
# installed programs: no service is stopped, disabled or configured.
# `setup.sh clients` also installs what `make clients` needs for clients from npm and for a browser.
set -eu

# On Debian the programs of PostgreSQL are not in PATH, and on Fedora the server of MariaDB is not.
has() {
    command -v "$1" >/dev/null 2>&1 && return
    case "$1" in
        postgres) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ;;
        pip3) python3 -m pip --version >/dev/null 2>&1 ;;
        # A module of Python; Debian has it in a package of its own.
        venv) python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ;;
        chromium) command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 ;;
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
        say "this command needs root, and sudo is not installed: $*" >&2
        exit 1
    fi
}

if ! has cargo; then
    say 'Rust is missing. Install rustup (see https://rustup.rs); it installs the toolchain of rust-toolchain.toml.' >&2
    exit 1
fi

missing=''
has redis-server || missing="$missing redis-server"
has python3 || missing="$missing python3"
# For the tests of packages of code nodes and of the Python package, which install wheels.
has pip3 || missing="$missing pip3"
# For the Python tests, and for clients from PyPI, each of which gets its own environment.
has venv || missing="$missing venv"
has cc || missing="$missing cc"
# For the tests of `sql` nodes: each starts a private server.
has postgres || missing="$missing postgres"
has mariadbd && has my_print_defaults || missing="$missing mariadbd"
if [ "${1:-}" = clients ]; then
    has node || missing="$missing node"
    has npm || missing="$missing npm"
    has chromium || missing="$missing chromium"
fi
[ -n "$missing" ] || exit 0
say "installing:$missing"

# package MANAGER PROGRAM: prints the packages that contain the program.
package() {
    case "$1:$2" in
        apt:redis-server) echo redis-server ;;
        dnf:postgres) echo postgresql-server ;;
        *:postgres) echo postgresql ;;
        # Only the programs: these packages install and start no service.
        apt:mariadbd) echo 'mariadb-server-core mariadb-client-core' ;;
        dnf:mariadbd) echo mariadb-server ;;
        apk:mariadbd) echo 'mariadb mariadb-common' ;;
        *:mariadbd) echo mariadb ;;
        apt:cc) echo 'gcc libc6-dev' ;;
        apk:cc) echo 'gcc musl-dev' ;;
        dnf:cc) echo gcc ;;
        *:redis-server) echo redis ;;
        apk:pip3) echo py3-pip ;;
        *:pip3) echo python3-pip ;;
        apt:venv) echo python3-venv ;;
        *:venv) echo python3 ;;
        apt:node | dnf:node | apk:node) echo nodejs ;;
        dnf:npm) echo nodejs-npm ;;
        brew:npm) echo node ;;
        *) echo "$2" ;;
    esac
}

packages() {
    for program in $missing; do package "$1" "$program"; done
}

# The lists of packages below are split at spaces on purpose: no package name contains one.
# shellcheck disable=SC2046
if has apt-get; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $(packages apt)
elif has dnf; then
    # Newer releases have Valkey instead of Redis; this package gives it the names of Redis too.
    as_root dnf install -y $(packages dnf) ||
        as_root dnf install -y $(packages dnf | sed 's/^redis$/valkey-compat-redis/')
elif has apk; then
    as_root apk add --no-cache $(packages apk)
elif has brew; then
    case "$missing" in
        *' cc'*) say 'a C compiler is missing: run `xcode-select --install` (macOS), then repeat this command' >&2; exit 1 ;;
    esac
    # Homebrew refuses to work as root.
    brew install $(packages brew)
else
    say "found no apt-get, dnf, apk or brew; install these yourself:$missing" >&2
    exit 1
fi

for program in $missing; do
    has "$program" || { say "$program is still missing" >&2; exit 1; }
done
