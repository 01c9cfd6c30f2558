./helpers.sh open_door "{{ bundle.parameters.password }}"
