./helpers.sh install "{{ bundle.credentials.token }}"
