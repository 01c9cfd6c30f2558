docker stop myapp-container
docker rm myapp-container
docker run -d -p 80:80 --name myapp-container ${bundle.images.myapp.repository}@${bundle.images.myapp.digest}
