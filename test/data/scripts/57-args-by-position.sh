find . -name '*.tmpl' -print0 | xargs -0 -n1 sh -c 'echo "$0"'
sh -c 'printf "%s\n" "$1" "$2"' _ ${ bundle.parameters.a } "${ bundle.parameters.b }"
