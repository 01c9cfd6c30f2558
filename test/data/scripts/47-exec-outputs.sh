./run-tests.sh
