./cluster.sh add-user "{{ bundle.parameters.username }}"
