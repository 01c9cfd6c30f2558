echo "The admin user is: {{ bundle.outputs.admin }}"
