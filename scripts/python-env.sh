#!/bin/sh
# Makes the environment of the Python tests and checks in target/python/venv, and prints its Python (venv.sh).
# It also links the module that cargo builds to where the package looks for it, so that nothing is built twice.
set -eu

cd "$(dirname "$0")/.."
python=${TIDEMILL_PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "python-env: $("$python" --version) is too old: the package needs 3.10 or newer; name another one with TIDEMILL_PYTHON" >&2
    exit 1
}
made=$(sh scripts/venv.sh python python/requirements-dev.txt)
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)

case "$(uname)" in
    Darwin) built=lib_native.dylib ;;
    *) built=lib_native.so ;;
esac
ln -sfn "$target/debug/$built" python/src/tidemill/_native.abi3.so
echo "$made"
