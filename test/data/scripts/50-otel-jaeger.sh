./helpers.sh set-config
