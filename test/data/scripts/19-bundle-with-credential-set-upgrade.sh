./helpers.sh uninstall "{{ bundle.credentials.token }}"
