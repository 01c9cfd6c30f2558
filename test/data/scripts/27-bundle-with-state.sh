mkdir -p /path/to
echo "Installing v${ bundle.version }" | tee /path/to/some_state
