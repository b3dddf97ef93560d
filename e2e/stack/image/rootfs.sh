#!/bin/sh
# rootfs.sh BINARY FOLDER: puts into FOLDER the files of an image that runs BINARY. Used by the
# Dockerfiles; `millrace_stack::image` writes the same files, and a test compares the two.
set -eu

binary=$1
root=$2
mkdir -p "$root/usr/local/bin" "$root/etc/ssl/certs" "$root/tmp"
chmod 1777 "$root/tmp"
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' \
    >"$root/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

# The loader and the shared libraries, under the very paths the loader looks for them.
ldd "$binary" | awk '{ path = ($2 == "=>") ? $3 : $1; if (path ~ /^\//) print path }' |
    while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done

strip --strip-all -o "$root/usr/local/bin/$(basename "$binary")" "$binary"
