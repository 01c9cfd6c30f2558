while IFS=, read -r host port; do
  [ -z "$host" ] && continue
  echo "checking ${host%%.*}:${port:-22}"
  nc -z "$host" "${port:-22}" || failed+=("$host")
done < hosts.csv
for suffix in ${ bundle.parameters.suffix } -test; do
  echo "name$suffix"
done
(( ${#failed[@]} == 0 )) || { printf '%s\n' "${failed[@]}"; exit 1; }
