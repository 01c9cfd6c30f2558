cd terraform
terraform init -input=false -backend-config="key=${ installation.name }.tfstate"
terraform apply -auto-approve -input=false -var region=${ bundle.parameters.region } -var "owner=${ bundle.parameters.owner }"
terraform output -raw ip > /cnab/app/outputs/ip
