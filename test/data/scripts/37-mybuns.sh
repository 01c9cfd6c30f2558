./helpers.sh chaos_monkey "${ bundle.parameters.chaos_monkey }"
