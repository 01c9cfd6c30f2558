echo "${ bundle.parameters.onlyApplyToUninstall }"
