./helpers.sh dump-ip "${bundle.outputs.IP_ADDRESS}"
