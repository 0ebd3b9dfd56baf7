#!/bin/sh
# Makes missing keys of the containers, each as a file in deploy/secrets. Never changes an existing key.
# If an older deploy/.env has a key, the script uses it: a new TIDEMILL_SECRET_KEY could not decrypt stored secrets.
set -eu
cd "$(dirname "$0")"

# Only the owner may open the folder. The files in it are readable for all, because a container sees them with these
# permissions, and its users differ from those of this machine.
mkdir -p secrets
chmod 700 secrets

# given NAME: prints the value of the line NAME=value in .env, if there is one.
given() {
    [ ! -f .env ] || sed -n "s/^$1=//p" .env | tr -d "\"'" | tail -n 1
}

# key FILE NAME: makes a missing file from that line, or else with a random key.
key() {
    [ ! -s "secrets/$1" ] || return 0
    value=$(given "$2")
    if [ -n "$value" ]; then
        echo "secrets: copied $2 from .env to secrets/$1; remove it from .env"
    else
        value=$(openssl rand -hex 32)
        echo "secrets: created secrets/$1"
    fi
    printf '%s' "$value" >"secrets/$1"
}

key admin_key TIDEMILL_ADMIN_KEY
key secret_key TIDEMILL_SECRET_KEY
key redis_password REDIS_PASSWORD
# Written each time, so that the URL always has the current password. A REDIS_URL in .env leads to another Redis, such as
# a master that Sentinels watch; REDIS_SENTINEL_PASSWORD is then the password at the Sentinels.
rm -f secrets/redis_url secrets/redis_sentinel_password
url=$(given REDIS_URL)
printf '%s' "${url:-redis://:$(cat secrets/redis_password)@redis:6379}" >secrets/redis_url
given REDIS_SENTINEL_PASSWORD | tr -d '\n' >secrets/redis_sentinel_password
chmod 444 secrets/*

for name in admin_key secret_key; do
    [ "$(wc -c <"secrets/$name")" -ge 16 ] ||
        echo "secrets: deploy/secrets/$name is shorter than 16 characters and will be refused; \`openssl rand -hex 32\` makes a better one" >&2
done
