#!/bin/sh
# Checks the Python of the package, its tests and the examples: form (ruff) and types (mypy, and basedpyright, which is
# pyright with a Node of its own from a package); of the fuzz test of the HTTP interface the form. `python-lint.sh fix`
# formats, and mends what ruff can mend.
set -eu

cd "$(dirname "$0")/.."
python=$(sh scripts/python-env.sh)
places='python examples/python tests/tests/openapi/python bench/peers/embedded.py bench/peers/on_embedded.py'
config=python/pyproject.toml

# The list of places is split at spaces on purpose.
# shellcheck disable=SC2086
if [ "${1:-}" = fix ]; then
    "$python" -m ruff check --quiet --fix --config "$config" $places || true
    exec "$python" -m ruff format --config "$config" $places
fi
# shellcheck disable=SC2086
{
    "$python" -m ruff format --quiet --check --config "$config" $places || {
        echo 'lint: `make fix` formats the code' >&2
        exit 1
    }
    "$python" -m ruff check --quiet --config "$config" $places
}
cd python
"$python" -m mypy --no-error-summary
"$python" -m basedpyright --pythonpath "$python"
