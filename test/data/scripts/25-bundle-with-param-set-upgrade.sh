./helpers.sh uninstall "{{ bundle.parameters.name }}"
