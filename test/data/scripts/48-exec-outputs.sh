./cluster.sh dump-users
