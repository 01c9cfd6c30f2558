./helpers.sh install "{{ bundle.parameters.password }}"
