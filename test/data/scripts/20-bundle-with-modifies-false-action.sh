mkdir -p /path/to
echo "installed" > /path/to/some_state
