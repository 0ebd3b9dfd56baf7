#!/bin/sh
# Makes the keys of the containers, each a file in deploy/secrets, where they are missing. Never changes one that is there.
# A key that an older deploy/.env holds is taken from there: another TIDEMILL_SECRET_KEY could not open what is sealed.
set -eu
cd "$(dirname "$0")"

# Others may not look into the folder. The files in it are for all to read, since a container sees them as they are
# here, and its users are not those of this machine.
mkdir -p secrets
chmod 700 secrets

# A line NAME=value of .env, if there is one.
given() {
    [ ! -f .env ] || sed -n "s/^$1=//p" .env | tr -d "\"'" | tail -n 1
}

# key FILE NAME: makes a file from that line, or at random.
key() {
    [ ! -s "secrets/$1" ] || return 0
    value=$(given "$2")
    if [ -n "$value" ]; then
        echo "secrets: secrets/$1 is $2 of .env; remove it there"
    else
        value=$(openssl rand -hex 32)
        echo "secrets: secrets/$1 is new"
    fi
    printf '%s' "$value" >"secrets/$1"
}

key admin_key TIDEMILL_ADMIN_KEY
key secret_key TIDEMILL_SECRET_KEY
key redis_password REDIS_PASSWORD
# Made again each time, so that it follows the password.
rm -f secrets/redis_url
printf 'redis://:%s@redis:6379' "$(cat secrets/redis_password)" >secrets/redis_url
chmod 444 secrets/*

for name in admin_key secret_key; do
    [ "$(wc -c <"secrets/$name")" -ge 16 ] ||
        echo "secrets: deploy/secrets/$name is shorter than 16 characters, and will be refused; \`openssl rand -hex 32\` makes a better one" >&2
done
