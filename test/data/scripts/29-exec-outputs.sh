./cluster.sh assert-output-value "{{ bundle.outputs.upgraded-user }}" wei-upgraded
