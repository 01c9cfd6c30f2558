bash ./upsertGroup.sh "{{bundle.parameters.AZURE_RESOURCE_GROUP_NAME}}" "{{bundle.parameters.AZURE_GROUP_REGION}}"
