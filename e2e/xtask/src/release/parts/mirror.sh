#!/bin/sh
# mirror.sh REGISTRY[/PREFIX] [OPTION...]: copies a release of Millrace into a registry: images of every
# platform, charts, signatures, attestations. What arrives has the digests that were signed.
#
#   ./mirror.sh registry.example
#   ./mirror.sh registry.example/team --dest-creds USER:PASSWORD
#   ./mirror.sh 127.0.0.1:5000 --dest-tls-verify=false
#
# Options are those of `skopeo copy`. Needs skopeo and sha256sum, nothing from outside. It may be
# repeated: what is there already isn't sent again. With cosign on the PATH it checks the signature of
# SHA256SUMS first, by the key in this folder or in MILLRACE_PUBLIC_KEY; a key that you have from
# elsewhere says more than one that came with the files.
set -eu

if [ $# -eq 0 ]; then
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
registry=$1
shift
key=${MILLRACE_PUBLIC_KEY:-}
case $key in
    "" | /* | *://*) ;;
    # Seen from where the script was called: this folder has a file of the same name.
    *) key=$PWD/$key ;;
esac
cd "$(dirname "$0")"
key=${key:-cosign.pub}

command -v skopeo >/dev/null 2>&1 || {
    echo "mirror.sh: skopeo is missing: install your distribution's package of that name" >&2
    exit 1
}
if command -v cosign >/dev/null 2>&1; then
    cosign verify-blob --private-infrastructure --key "$key" --signature SHA256SUMS.sig SHA256SUMS ||
        { echo "mirror.sh: SHA256SUMS isn't what was signed: get the bundle again" >&2; exit 1; }
else
    echo "mirror.sh: no cosign on the PATH: checksums are checked, who signed them is not" >&2
fi
sha256sum --check --quiet SHA256SUMS || {
    echo "mirror.sh: a file isn't what was released: get the bundle again" >&2
    exit 1
}

while read -r repository tag digest name; do
    echo "$registry/$repository:$tag"
    skopeo --insecure-policy copy --quiet --all --preserve-digests "$@" \
        "oci:layout:$name" "docker://$registry/$repository:$tag" </dev/null || {
        echo "mirror.sh: could not copy $repository:$tag ($digest); run it again to go on" >&2
        exit 1
    }
done <CONTENTS

echo
echo "helm install millrace-crds oci://$registry/millrace/charts/millrace-crds --version @VERSION@"
echo "helm install millrace oci://$registry/millrace/charts/millrace --version @VERSION@ \\"
echo "  --namespace millrace-system --create-namespace \\"
echo "  --set image.repository=$registry/millrace/operator \\"
echo "  --set collector.imageRepository=$registry/millrace/collector"
