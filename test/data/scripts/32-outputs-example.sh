./helpers.sh assert-output-value "{{ bundle.outputs.user-output }}" sally
