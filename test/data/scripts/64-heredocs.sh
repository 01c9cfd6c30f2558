cat <<'RAW' > run.py
import os
print("$HOME `date` ${notours}")
RAW
cat <<-TABS
	hello ${ bundle.parameters.who }, $(whoami) \$5
	TABS
cat <<A; cat <<B
one ${ bundle.parameters.a }
A
two ${ bundle.parameters.b }
B
