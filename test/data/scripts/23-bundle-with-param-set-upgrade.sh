./helpers.sh install "{{ bundle.parameters.name }}"
