./helpers.sh dump "{{ bundle.outputs.user }}"
