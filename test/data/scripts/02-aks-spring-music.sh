az account set -s "{{ bundle.credentials.SUBSCRIPTION_ID}}"
