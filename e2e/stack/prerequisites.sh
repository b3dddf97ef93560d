#!/bin/sh
# What must stand before the first `cargo` call: a Rust toolchain, and the C libraries that librdkafka
# is compiled with. Everything later is checked, fetched and built by the stack itself, with progress.
# Installs Debian packages only when they are missing; prints one line for each thing it can't fix.
set -eu

missing() {
    echo "error: $1 is missing: $2" >&2
    exit 1
}

command -v cargo >/dev/null 2>&1 ||
    missing "cargo" "install Rust 1.89 or newer (https://rustup.rs)"

# Subjects of commits are checked as they are written, not only by `make check`.
if [ -e .git ] && command -v git >/dev/null 2>&1; then
    git config core.hooksPath .config/git-hooks || true
fi

packages=""
need() { # need COMMAND-OR-FILE PACKAGE
    case "$1" in
        /*) [ -e "$1" ] || packages="$packages $2" ;;
        *) command -v "$1" >/dev/null 2>&1 || packages="$packages $2" ;;
    esac
}
need g++ g++
need cmake cmake
need pkg-config pkg-config
need git git
need /usr/include/openssl/ssl.h libssl-dev
need /usr/include/zlib.h zlib1g-dev
[ -n "$packages" ] || exit 0

[ "$(id -u)" = 0 ] || missing "$packages" "as root: apt-get install$packages"
command -v apt-get >/dev/null 2>&1 || missing "$packages" "install the packages of that name"
echo "==> installing$packages" >&2
apt-get update -qq >/dev/null
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
