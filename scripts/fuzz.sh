#!/bin/sh
# Runs each fuzz target for FUZZ_SECONDS (default: 60). ONLY="target …" runs only these targets. See fuzz/README.md.
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
    # No sanitizer: it would need another toolchain, and our own code has no unsafe parts to check.
    "$cargo" fuzz run --sanitizer none --target-dir "$build" "$target" "$corpus" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 -verbosity=0
done
