#!/bin/sh
# usage: enter-order.sh CUSTOMER AMOUNT
set -eu
quoted=$(printf %s "$1" | sed "s/'/''/g")
sqlite3 orders.db "INSERT INTO orders VALUES ('$quoted', $2)"
