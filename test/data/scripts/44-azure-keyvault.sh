bash ./helpers.sh random_string
