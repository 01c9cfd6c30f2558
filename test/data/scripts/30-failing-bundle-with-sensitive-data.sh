fail open_door "{{ bundle.parameters.password }}"
