./helpers.sh upgrade "{{ bundle.parameters.name }}"
