docker login --username "${ bundle.credentials.user }" --password-stdin ghcr.io < /run/password
docker run --rm -v "$PWD:/src" -w /src -e MODE=${ bundle.parameters.mode } ${ bundle.images.web.repository }@${ bundle.images.web.digest } make all
docker ps --filter "name=${ installation.name }" --format '{{.ID}} {{.Names}}'
