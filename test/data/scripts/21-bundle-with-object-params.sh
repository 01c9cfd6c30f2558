echo "Config name: ${{ bundle.parameters.config.name }}"
