# don't touch ${ bundle.parameters.x } here: it's "only" a `comment` $(
echo ok # nor ${ bundle.parameters.x } there's
echo 'a # b' "c # d" e#f ${ bundle.parameters.x }
