export REGION=${ bundle.parameters.region } ZONE="${ bundle.parameters.region }-a"
export AWS_ACCESS_KEY_ID=${ bundle.credentials.key }
LOG=debug ./run.sh --name=${ bundle.name } --tag "v${ bundle.version }"
