#!/bin/sh
# Checks deploy/compose.yaml with `docker compose`, or with Debian's docker-compose. The settings are those of
# deploy/env.example; deploy/secrets.sh creates the keys. If haproxy is installed, deploy/haproxy.cfg is checked too.
# Prints which checks were skipped.
set -eu
cd "$(dirname "$0")/.."

if docker compose version >/dev/null 2>&1; then
    compose='docker compose'
elif command -v docker-compose >/dev/null 2>&1; then
    compose=docker-compose
else
    echo 'compose-check: skipped: neither docker compose nor docker-compose is installed'
    exit 0
fi

# Works in a copy: the .env and the keys in deploy/ belong to the user, and may not exist.
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-compose.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/deploy"
for file in Dockerfile compose.yaml env.example haproxy.cfg redis.conf secrets.sh tidemill.toml; do
    cp "deploy/$file" "$dir/deploy/"
done
cp "$dir/deploy/env.example" "$dir/deploy/.env"
sh "$dir/deploy/secrets.sh" >/dev/null
# Only the values in .env must count.
for name in COMPOSE_PROJECT_NAME COMPOSE_FILE REDIS_MEMORY REDIS_MAXMEMORY SCHEDULER_MEMORY WORKER_MEMORY; do
    unset "$name"
done

# A warning (for example, a variable that is not set) is an error too.
$compose -f "$dir/deploy/compose.yaml" config >"$dir/config" 2>"$dir/said" || {
    cat "$dir/said" >&2
    echo "compose-check: $compose refuses deploy/compose.yaml" >&2
    exit 1
}
[ ! -s "$dir/said" ] || {
    cat "$dir/said" >&2
    echo "compose-check: $compose prints warnings about deploy/compose.yaml" >&2
    exit 1
}
# No key may reach a command line or the environment of a container, where `docker inspect` shows it.
for key in "$dir"/deploy/secrets/*; do
    if grep -qF "$(cat "$key")" "$dir/config"; then
        echo "compose-check: the configuration contains the value of deploy/secrets/${key##*/}" >&2
        exit 1
    fi
done
# Every mounted file must exist: for a missing one Docker creates an empty folder.
for path in $(grep -o "$dir/deploy/[A-Za-z0-9._/-]*" "$dir/config" | sort -u); do
    [ -e "$path" ] || {
        echo "compose-check: deploy/${path#"$dir/deploy/"} is named in the configuration, but does not exist" >&2
        exit 1
    }
done

if command -v haproxy >/dev/null 2>&1; then
    haproxy -c -f deploy/haproxy.cfg >"$dir/said" 2>&1 || {
        cat "$dir/said" >&2
        echo 'compose-check: haproxy refuses deploy/haproxy.cfg' >&2
        exit 1
    }
else
    echo 'compose-check: deploy/haproxy.cfg is not checked: haproxy is not installed'
fi
