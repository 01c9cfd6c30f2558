set -e
umask 077
mkdir -p "$HOME/.kube"
cat > "$HOME/.kube/config" <<EOF
apiVersion: v1
kind: Config
clusters:
  - name: main
    cluster: {server: "${ bundle.parameters.server }"}
users:
  - name: deployer
    user: {token: "${ bundle.credentials.token }"}
EOF
kubectl config use-context main
