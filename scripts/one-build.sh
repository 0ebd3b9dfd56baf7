#!/bin/sh
# Checks that the programs (the packages in the arguments) and the workspace with its tests use every crate with the
# same features. If they differ, `make run` and then `make test` build the crate twice, and all crates that use it.
set -eu

cargo=${CARGO:-cargo}
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-features.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# features KINDS ARGUMENTS...: prints one line per crate, with its version and features.
features() {
    kinds=$1
    shift
    "$cargo" tree --quiet --locked --edges "$kinds" --prefix none --format '{p} {f}' "$@" >"$dir/tree"
    sed 's/ (\*)$//' "$dir/tree" | sort -u
}

features normal,build "$@" >"$dir/programs"
features normal,build,dev --workspace >"$dir/all"
different=$(comm -23 "$dir/programs" "$dir/all")
[ -z "$different" ] || {
    echo "one-build: the tests use other features of these crates than the programs:"
    printf '%s\n' "$different" | sed 's/^/    /'
    echo "one-build: list these features in [workspace.dependencies] of Cargo.toml, so that both use them"
    exit 1
} >&2
