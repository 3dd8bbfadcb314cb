# What every shell builder of the build world starts with: `bash setup.sh`.
#
# In: path (folders of programs), buildCommand (a script), and with __structuredAttrs
# their arrays in .attrs.sh.
set -eu -o pipefail

structured=${NIX_ATTRS_SH_FILE:-.attrs.sh}
if [ -e "$structured" ]; then
    # A declare inside a function would be local; nothing here is a function.
    . "$structured"
    out=${outputs[out]}
    export out
fi

PATH=$path
for input in "${nativeBuildInputs[@]:-}"; do
    # Without structured attributes the list is one string.
    for folder in $input; do
        PATH=$folder/bin:$PATH
    done
done
export PATH LC_ALL=C
umask 022

eval "$buildCommand"
