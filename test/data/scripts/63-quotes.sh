echo "It's ${ bundle.parameters.who }'s turn, \"${ bundle.parameters.who }\" \$HOME"
echo 'single "quotes" $here' "and \\ ${ bundle.parameters.who }"
echo prefix-"${ bundle.parameters.who }"-suffix"$(echo "${ bundle.parameters.who }" | tr a-z A-Z)"
