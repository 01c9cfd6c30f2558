arr=(a "b c" ${ bundle.parameters.x })
echo "${#arr[@]} ${arr[0]} ${arr[*]:1} ${HOME:-/root} ${PATH//:/ } ${x:=y} ${!HO*} $$ $? $! ${env} ${bundle}"
echo $((1 + ${#arr[@]})) "${arr[@]/%/.txt}"
diff <(echo ${ bundle.parameters.x }) <(sort file) > /dev/null
