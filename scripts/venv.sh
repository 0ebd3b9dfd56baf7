#!/bin/sh
# venv.sh NAME LOCK: makes the environment target/NAME/venv with the packages that the file LOCK pins, and prints its Python.
# It is made again when that file or the version of Python changes. TIDEMILL_PYTHON names the Python to use, which is
# `python3` otherwise.
set -eu

name=$1 lock=$2
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/$name"
home=$(cd "$target/$name" && pwd)/venv
python=${TIDEMILL_PYTHON:-python3}

state="$("$python" -c 'import sys; print(sys.version)' | tr '\n' ' ') $(cksum <"$lock")"
if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$state" ]; then
    echo "$name: installing the packages of $lock" >&2
    rm -rf "$home"
    "$python" -m venv "$home"
    # Only wheels: nothing is compiled, and no code of a package runs while it is installed.
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
        --require-hashes --requirement "$lock" >&2
    printf '%s' "$state" >"$home/installed"
fi
echo "$home/bin/python"
