echo "${ bundle.custom.customKey1 }"
