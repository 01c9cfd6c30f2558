echo "image:${ bundle.installerImage }"
