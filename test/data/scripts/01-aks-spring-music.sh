az login --service-principal --username "{{ bundle.credentials.CLIENT_ID}}" --password "{{ bundle.credentials.CLIENT_SECRET}}" --tenant "{{ bundle.credentials.TENANT_ID}}"
