#!/bin/sh
# Tidemill in small: a private Redis, a scheduler, two workers and a mock model, each a process of its own, and one
# chatflow through them. Everything lives in a temporary folder and ends with this script. Needs no key, no terminal,
# and no free port that it would have to know.
set -eu
cd "$(dirname "$0")/.."

target=$(cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
bin="$target/debug"
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-demo.XXXXXX")
pids=''

# Whatever this machine is set to, the demonstration has settings of its own.
for name in $(env | sed -n 's/^\(TIDEMILL_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done

step() { printf '\n==> %s\n' "$*"; }

fail() {
    printf '\ndemo: %s\n' "$*" >&2
    for log in "$dir"/*.log; do
        [ -s "$log" ] || continue
        printf -- '--- the end of %s\n' "${log##*/}" >&2
        tail -n 15 "$log" >&2
    done
    exit 1
}

# The last one started ends first, Redis last.
clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    for pid in $pids; do
        kill "$pid" 2>/dev/null || continue
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.5
        done
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$dir"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# start NAME COMMAND...: in the background, its output in a log.
start() {
    name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 </dev/null &
    pids="$! $pids"
}

# wait_for WHAT COMMAND...: until the command succeeds, at most half a minute.
wait_for() {
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 150 ] || fail "$what did not come up"
        sleep 0.2
    done
}

step 'Redis, reachable by a socket in a temporary folder and by nothing else'
start redis redis-server --port 0 --unixsocket "$dir/redis.sock" --unixsocketperm 700 --dir "$dir" \
    --daemonize no --appendonly yes --save '' --maxmemory-policy noeviction
wait_for Redis redis-cli -s "$dir/redis.sock" PING

step 'a mock model that speaks the OpenAI protocol'
start mock-llm "$bin/tidemill" mock-llm examples/mock-rules.json --listen 127.0.0.1:0
wait_for 'the mock model' grep -q '^http' "$dir/mock-llm.log"
model=$(sed -n 's/^\(http[^ ]*\).*/\1/p' "$dir/mock-llm.log" | head -n 1)

step 'a scheduler and two workers, with these settings'
admin_key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
umask 077
cat >"$dir/tidemill.toml" <<SETTINGS
[redis]
url = "unix://$dir/redis.sock"
[scheduler]
listen = "127.0.0.1:0"
admin_key = "$admin_key"
[worker]
listen = ""
[log]
format = "json"
[providers.default]
base_url = "$model"
SETTINGS
sed 's/^\(admin_key = \).*/\1"…"/; s/^/    /' "$dir/tidemill.toml"
start scheduler "$bin/tidemill-scheduler" --config "$dir/tidemill.toml"
start worker-1 "$bin/tidemill-worker" --config "$dir/tidemill.toml"
start worker-2 "$bin/tidemill-worker" --config "$dir/tidemill.toml"
wait_for 'the scheduler' grep -q '"address":"' "$dir/scheduler.log"
url=http://$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$dir/scheduler.log" | head -n 1)
export TIDEMILL_URL="$url" TIDEMILL_KEY="$admin_key"
wait_for 'the API' "$bin/tidemill" ps

step "tidemill run examples/chat.yml --query 'What is a tide mill?' --events --url $url"
"$bin/tidemill" run examples/chat.yml --query 'What is a tide mill?' --events --url "$url" || fail 'the run did not succeed'

step 'tidemill ps'
"$bin/tidemill" ps
run=$("$bin/tidemill" ps --json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1)

step "tidemill show $run"
"$bin/tidemill" show "$run"

step 'the same in Redis: redis-cli --scan, and the run as it is stored'
redis-cli -s "$dir/redis.sock" --scan --pattern 'tm:*' | sort
shard=$((0x${run##*-} & 0x3fff))
echo
redis-cli -s "$dir/redis.sock" HGETALL "tm:{$shard}:run:$run" | paste - -

cat <<'NEXT'

==> That was all of it; everything that was started is being stopped. Where to go on:

    tidemill dev examples/chat.yml --mock-llm=examples/mock-rules.json   the same, and it stays
    tidemill ps, show, watch, stop        beside it, in the same folder
    docs/redis.md                         what lies in Redis, and the redis-cli commands for operators
    docs/api.md                           the HTTP interface
    deploy/example.toml                   every setting with its default
    (the binaries are in the target folder: target/debug/tidemill, or run `cargo run -p tidemill -- dev …`)
NEXT
