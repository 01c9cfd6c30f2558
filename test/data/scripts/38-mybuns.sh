cat "${ bundle.parameters.cfg }"
