# What every shell builder of the build world starts with: `bash setup.sh`.
#
# In: path (folders of programs), buildCommand (a script), and with __structuredAttrs
# their arrays in .attrs.sh.
set -eu -o pipefail

# Nix 2.8 names a path outside the sandbox in NIX_ATTRS_SH_FILE; the file is here.
if [ -e .attrs.sh ]; then
    . ./.attrs.sh
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
