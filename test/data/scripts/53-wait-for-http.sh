url="https://${ bundle.outputs.host }:${ default(bundle.parameters.port, 443) }/healthz"
n=0
until curl -fsS "$url" > /dev/null; do
  n=$((n + 1))
  if [ "$n" -ge 30 ]; then
    echo "no answer from $url" >&2
    exit 1
  fi
  sleep 2
done
echo "up after $n tries"
