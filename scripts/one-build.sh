#!/bin/sh
# Checks that the programs alone (the packages in the arguments) and the whole workspace with its tests ask for the same
# features of every crate. Where they do not, `make run` and then `make test` build that crate twice, and all above it.
set -eu

cargo=${CARGO:-cargo}
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-features.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# features KINDS ARGUMENTS...: a line for each crate, with its version and features.
features() {
    kinds=$1
    shift
    "$cargo" tree --quiet --locked --edges "$kinds" --prefix none --format '{p} {f}' "$@" | sed 's/ (\*)$//' | sort -u
}

features normal,build "$@" >"$dir/programs"
features normal,build,dev --workspace >"$dir/all"
different=$(comm -23 "$dir/programs" "$dir/all")
[ -z "$different" ] || {
    echo "one-build: tests ask for more features of these crates than the programs do:"
    printf '%s\n' "$different" | sed 's/^/    /'
    echo "one-build: name the features in [workspace.dependencies] of Cargo.toml, for both"
    exit 1
} >&2
