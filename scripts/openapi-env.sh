#!/bin/sh
# Makes the environment of `make openapi-fuzz` in target/openapi/venv, and prints its Python (venv.sh).
set -eu

cd "$(dirname "$0")/.."
sh scripts/venv.sh openapi tests/tests/openapi/python/requirements.txt
