#!/bin/sh
# Builds a wheel of the Python package with the program `tidemill` inside, into target/wheels, and prints its path. Both are
# release builds: the first one takes many minutes. PROFILE=dev makes one of the debug build, to try the packaging.
set -eu

cd "$(dirname "$0")/.."
python=$(sh scripts/python-env.sh)
target=${CARGO_TARGET_DIR:-target}
target=$(cd "$target" && pwd)
profile=${PROFILE:-release}
case "$profile" in
    dev) built=debug ;;
    *) built=$profile ;;
esac
work=$target/python/wheel
rm -rf "$work" "$target/wheels"
mkdir -p "$work" "$target/wheels"

"${CARGO:-cargo}" build --profile "$profile" --locked -p tidemill >&2
# maturin builds in the same target folder, so crates that both use are built once.
CARGO_TARGET_DIR=$target "$python" -m maturin build --quiet --profile "$profile" --locked --manifest-path python/Cargo.toml \
    --interpreter "$python" --out "$work/package" >&2

# What is in `scripts` becomes a command of the environment: the program itself, not a script that starts it. maturin takes
# such files only from a folder that must then exist for each build, also for `pip install ./python`.
"$python" -m wheel unpack --dest "$work" "$work"/package/*.whl >&2
package=$(ls -d "$work"/tidemill-*)
scripts=$package/$(basename "$package").data/scripts
mkdir -p "$scripts"
# Without the names of functions it is a third of the size; the program of cargo keeps them.
strip -o "$scripts/tidemill" "$target/$built/tidemill"
chmod 755 "$scripts/tidemill"
"$python" -m wheel pack --dest-dir "$target/wheels" "$package" >&2
rm -rf "$work"
ls "$target"/wheels/*.whl
