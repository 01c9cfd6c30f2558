az aks get-credentials --resource-group "{{ bundle.parameters.aks-resource-group }}" --name "{{ bundle.parameters.aks-cluster-name }}"
