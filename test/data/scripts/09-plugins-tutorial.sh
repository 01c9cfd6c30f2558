./helpers.sh "install {{ bundle.credentials.password }}"
