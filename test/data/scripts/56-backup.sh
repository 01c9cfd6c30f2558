#!/bin/bash
trap 'rm -rf "$tmp"' EXIT
tmp=$(mktemp -d)
pg_dump --host ${ bundle.outputs.host } --username "${ bundle.parameters.user }" --no-password app | gzip -9 > "$tmp/dump.gz"
name="$(date +%Y%m%d)-${ installation.name }.gz"
aws s3 cp "$tmp/dump.gz" "s3://${ bundle.parameters.bucket }/$name"
ls -l "$tmp" | awk '{ total += $5 } END { print total }'
