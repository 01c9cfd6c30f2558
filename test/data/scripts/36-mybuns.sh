./helpers.sh makeMagic "${ bundle.credentials.username } is a unicorn with ${ bundle.parameters.password } secret."
