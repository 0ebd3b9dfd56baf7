#!/bin/sh
# Runs the fuzz targets, each for FUZZ_SECONDS (60); ONLY names some of them. See fuzz/README.md.
set -eu

cargo=${CARGO:-cargo}
seconds=${FUZZ_SECONDS:-60}
build=${CARGO_TARGET_DIR:-$PWD/target}/fuzz

if ! "$cargo" fuzz --version >/dev/null 2>&1; then
    echo 'fuzz: installing cargo-fuzz'
    "$cargo" install cargo-fuzz --locked
fi

for target in ${ONLY:-$("$cargo" fuzz list)}; do
    corpus=fuzz/corpus/$target
    mkdir -p "$corpus"
    if [ "$target" = dsl_import ]; then
        for file in examples/*.yml tests/conformance/cases/*/workflow.yml; do
            cp "$file" "$corpus/seed-$(echo "$file" | tr '/' '-')"
        done
    else
        cp fuzz/seeds/"$target"/* "$corpus/"
    fi
    if [ "$target" = model_stream ]; then
        for file in worker/src/outside/providers/fixtures/*/*.*; do
            cp "$file" "$corpus/seed-$(echo "${file#worker/src/outside/providers/fixtures/}" | tr '/' '-')"
        done
    fi
    echo "fuzz: $target for $seconds s"
    # Without a sanitizer, which would need another toolchain: there is no unsafe code of ours to watch.
    "$cargo" fuzz run --sanitizer none --target-dir "$build" "$target" "$corpus" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 -verbosity=0
done
