echo "database: ${ bundle.parameters.database }"
