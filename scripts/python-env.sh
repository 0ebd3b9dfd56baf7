#!/bin/sh
# Makes the environment of the Python tests and checks, and prints its Python: target/python/venv, with the packages that
# python/requirements-dev.txt pins. It is made again when that file or the version of Python changes. TIDEMILL_PYTHON
# names the Python to use, which is `python3` otherwise.
# It also links the module that cargo builds to where the package looks for it, so that nothing is built twice.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/python"
target=$(cd "$target" && pwd)
home=$target/python/venv
lock=python/requirements-dev.txt
python=${TIDEMILL_PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "python-env: $("$python" --version) is too old: the package needs 3.10 or newer; name another one with TIDEMILL_PYTHON" >&2
    exit 1
}
state="$("$python" -c 'import sys; print(sys.version)' | tr '\n' ' ') $(cksum <"$lock")"
if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$state" ]; then
    echo "python-env: installing the packages of $lock" >&2
    rm -rf "$home"
    "$python" -m venv "$home"
    # Only wheels: nothing is compiled, and no code of a package runs while it is installed.
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
        --require-hashes --requirement "$lock" >&2
    printf '%s' "$state" >"$home/installed"
fi

case "$(uname)" in
    Darwin) built=lib_native.dylib ;;
    *) built=lib_native.so ;;
esac
ln -sfn "$target/debug/$built" python/src/tidemill/_native.abi3.so
echo "$home/bin/python"
