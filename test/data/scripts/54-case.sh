case "${ bundle.parameters.env }" in
  prod|production)
    size=large
    ;;
  (staging) size=medium ;;
  *)
    size=small
esac
echo "$size" > /cnab/app/outputs/size
