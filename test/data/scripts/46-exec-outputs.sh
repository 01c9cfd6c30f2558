./cluster.sh generate-users
