./helpers.sh install "${ bundle.dependencies.mysql.outputs.mysql-password }"
