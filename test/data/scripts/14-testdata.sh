./helpers.sh uninstall "${ bundle.outputs.msg }"
