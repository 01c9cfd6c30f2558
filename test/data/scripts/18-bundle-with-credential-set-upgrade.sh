./helpers.sh upgrade "{{ bundle.credentials.token }}"
