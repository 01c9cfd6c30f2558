./cluster.sh uninstall
