#!/bin/sh
# Builds a wheel of the Python package with the program `tidemill` inside, into target/wheels, and prints its path. Both are
# release builds: the first one takes many minutes. PROFILE=dev makes one of the debug build, to try the packaging.
set -eu

cd "$(dirname "$0")/.."
python=$(sh scripts/python-env.sh)
target=${CARGO_TARGET_DIR:-target}
target=$(cd "$target" && pwd)
# What is in scripts becomes a command of the environment: the program itself, not a script that starts it.
data=python/tidemill.data
inside=$data/scripts
profile=${PROFILE:-release}
case "$profile" in
    dev) built=debug ;;
    *) built=$profile ;;
esac

"${CARGO:-cargo}" build --profile "$profile" --locked -p tidemill >&2
rm -rf "$data" "$target/wheels"
mkdir -p "$inside"
# Without the names of functions it is a third of the size; the names of lines are in the program that cargo has built.
strip -o "$inside/tidemill" "$target/$built/tidemill"
chmod 755 "$inside/tidemill"
# maturin builds with the same target folder, so the crates that both use are built once.
CARGO_TARGET_DIR=$target "$python" -m maturin build --quiet --profile "$profile" --locked --manifest-path python/Cargo.toml \
    --interpreter "$python" --out "$target/wheels" >&2
rm -rf "$data"
ls "$target"/wheels/*.whl
