docker stop myapp-container
docker rm myapp-container
