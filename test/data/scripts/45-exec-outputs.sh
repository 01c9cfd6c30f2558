./cluster.sh create-cluster
