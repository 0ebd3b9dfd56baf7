#!/bin/sh
# Tries a wheel as a new user would: in an empty virtual environment, in a folder outside the repository. Without an
# argument it builds the wheel first.
set -eu

cd "$(dirname "$0")/.."
wheel=${1:-$(sh scripts/wheel.sh)}
wheel=$(cd "$(dirname "$wheel")" && pwd)/$(basename "$wheel")
examples=$(pwd)/examples
place=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-wheel.XXXXXX")
trap 'rm -rf "$place"' EXIT
cp python/tests/wheel/*.py "$place"

cd "$place"
# Nothing of the repository may help: neither its folder nor its programs are on a path.
unset PYTHONPATH TIDEMILL_CODE_HELPER VIRTUAL_ENV
"${TIDEMILL_PYTHON:-python3}" -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$wheel"
PATH=$place/env/bin:/usr/bin:/bin EXAMPLES=$examples env/bin/python try_wheel.py
echo "wheel-test: $(basename "$wheel") works in an empty environment"
