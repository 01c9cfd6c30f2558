#!/bin/sh
set -eu
jq -r '.[] | "\(.customer): \(.amount)"' /cnab/app/inputs/orders | tee /cnab/app/outputs/report
jq -r '"this was " + .action + " of " + .bundle.name + " by " + .step.image.reference' /cnab/context.json
