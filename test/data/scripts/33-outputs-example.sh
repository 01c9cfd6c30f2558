./helpers.sh dump "{{ bundle.outputs.user-output }}"
