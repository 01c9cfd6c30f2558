./helpers.sh debug "${ bundle.outputs.name }"
