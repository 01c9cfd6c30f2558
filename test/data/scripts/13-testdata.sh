./helpers.sh upgrade "${ bundle.outputs.msg }"
