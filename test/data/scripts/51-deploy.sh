#!/usr/bin/env bash
set -euo pipefail

# Rolls out one release and waits for it (it's "idempotent").
release=${ bundle.name }
namespace="${ bundle.parameters.namespace }"
values=(--set "image.tag=${ bundle.images.web.digest }" --set-string owner=${ bundle.parameters.owner })

if ! kubectl get namespace "$namespace" >/dev/null 2>&1; then
  kubectl create namespace "$namespace"
fi
helm upgrade --install "$release" ./chart --namespace "$namespace" "${values[@]}" --wait
for i in $(seq 1 "${RETRIES:-5}"); do
  phase=$(kubectl get pods -n "$namespace" -o jsonpath='{.items[0].status.phase}')
  [[ $phase == Running ]] && break
  sleep $((i * 2))
done
