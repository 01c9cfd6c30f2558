helm init --service-account tiller --upgrade
