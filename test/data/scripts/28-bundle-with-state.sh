echo "Upgrading to v${ bundle.version }" | tee -a /path/to/some_state
