#!/bin/sh
# A small Tidemill: starts a private Redis, a scheduler, two workers and a mock model, each as a separate process, and
# runs one chatflow. All files are in a temporary folder. At the end, the processes are stopped and the folder is
# removed. Needs no API key and no terminal. The system chooses the ports.
set -eu
cd "$(dirname "$0")/.."

target=$(cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
bin="$target/debug"
dir=$(mktemp -d "${TMPDIR:-/tmp}/tidemill-demo.XXXXXX")
pids=''

# The demo has its own settings; variables of this machine must not change them.
for name in $(env | sed -n 's/^\(TIDEMILL_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done

step() { printf '\n==> %s\n' "$*"; }

fail() {
    printf '\ndemo: %s\n' "$*" >&2
    for log in "$dir"/*.log; do
        [ -s "$log" ] || continue
        printf -- '--- the last lines of %s\n' "${log##*/}" >&2
        tail -n 15 "$log" >&2
    done
    exit 1
}

# Stops the processes in reverse order: Redis, which started first, stops last.
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

# start NAME COMMAND...: runs the command in the background, with its output in NAME.log.
start() {
    name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 </dev/null &
    pids="$! $pids"
}

# wait_for WHAT COMMAND...: repeats the command until it succeeds, for about 30 seconds at most.
wait_for() {
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 150 ] || fail "$what did not start in time"
        sleep 0.2
    done
}

step 'start Redis (no port, only a socket in a temporary folder)'
start redis redis-server --port 0 --unixsocket "$dir/redis.sock" --unixsocketperm 700 --dir "$dir" \
    --daemonize no --appendonly yes --save '' --maxmemory-policy noeviction
wait_for Redis redis-cli -s "$dir/redis.sock" PING

step 'start a mock model, which speaks the OpenAI protocol'
start mock-llm "$bin/tidemill" mock-llm examples/mock-rules.json --listen 127.0.0.1:0
wait_for 'the mock model' grep -q '^http' "$dir/mock-llm.log"
model=$(sed -n 's/^\(http[^ ]*\).*/\1/p' "$dir/mock-llm.log" | head -n 1)

step 'start a scheduler and two workers with these settings'
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

step 'the same run in Redis: all keys (redis-cli --scan), then the fields of the run'
redis-cli -s "$dir/redis.sock" --scan --pattern 'tm:*' | sort
shard=$((0x${run##*-} & 0x3fff))
echo
redis-cli -s "$dir/redis.sock" HGETALL "tm:{$shard}:run:$run" | paste - -

cat <<'NEXT'

==> The demo has finished. Its processes are being stopped. What to try next:

    tidemill dev examples/chat.yml --mock-llm=examples/mock-rules.json   runs the same, until you stop it
    tidemill ps, show, watch, stop        for the runs of `tidemill dev`: in another terminal, in the same folder
    docs/redis.md                         the data in Redis, and redis-cli commands for operators
    docs/api.md                           the HTTP interface
    deploy/example.toml                   every setting with its default
    (The program is in the target folder: target/debug/tidemill. Or use `cargo run -p tidemill -- dev …`.)
NEXT
