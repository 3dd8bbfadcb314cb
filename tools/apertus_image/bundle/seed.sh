#!/bin/sh
# tools/bootstrap where there is no Python and no Nix: both come out of the pins.
#
#   seed.sh PROJECT ARGUMENTS     as tools/bootstrap ARGUMENTS
#
# The packages of the folder that is to be made are brought first, by what this machine
# has, and the command is run on them. Needs sh, coreutils, sed, tar and xz, and for mirrors
# that are no folders curl, wget or apt; Debian's dpkg-deb does for xz. What is brought is kept
# until the folder is made, so a run that was stopped goes on.
set -eu
unset CDPATH TAR_OPTIONS XZ_DEFAULTS XZ_OPT

project=$1
shift
pins=$project/nix/pins

fail() {  # WHAT [FIELD TEXT]...
    printf 'error: %s\n' "$1"
    shift
    while [ $# -gt 0 ]; do
        printf '  %-10s%s\n' "$1:" "$2"
        shift 2
    done
    exit 1
} >&2

has() { command -v "$1" >/dev/null 2>&1; }

# -- what is asked for, before anything is brought ------------------------------------------

usage="Usage: tools/bootstrap [--machine x86_64|aarch64] [--store DIR] [--json] DIR"
folders=0 option=
for word in "$@"; do
    case $option$word in
    --help) echo "$usage" && echo "What it makes and needs: docs/site.md" && exit ;;
    --machine | --store) option=$word= ;;
    --machine=x86_64 | --machine=aarch64 | --store=?* | --json | --setup) option= ;;
    -*) printf '%s\n\nError: not understood: %s\n' "$usage" "$option$word" >&2 && exit 2 ;;
    *) folders=$((folders + 1)) ;;
    esac
done
[ "$folders$option" = 1 ] || { printf '%s\n\nError: one DIR is needed\n' "$usage" >&2 && exit 2; }

# -- what this machine is and has -----------------------------------------------------------

machine=$(uname -m)
case $machine in
x86_64) debian=amd64 loader=ld-linux-x86-64.so.2 ;;
aarch64) debian=arm64 loader=ld-linux-aarch64.so.1 ;;
*) fail "no pins for this machine" expected "x86_64 or aarch64" got "$machine" ;;
esac

lacking=
for program in cat chmod cp cut date head mkdir mv readlink rm sed sha256sum sort tail tar touch \
    tr wc $(has xz || has dpkg-deb || echo xz); do
    has "$program" || lacking="$lacking $program"
done
[ -z "$lacking" ] || fail "programs are missing here" expected "$lacking" \
    next "install them, or make the folder on another machine and copy it (docs/site.md)"

# -- a place to work in ---------------------------------------------------------------------

cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
seed=$([ -n "$cache" ] && mkdir -p "$cache/apertus-image/seed/debs" 2>/dev/null &&
    cd "$cache/apertus-image/seed" && pwd -P) || seed=
[ -w "$seed/debs" ] || fail "the cache cannot be written" where "${cache:-HOME is not set}" \
    next "set XDG_CACHE_HOME to a folder of yours"

# A run is known by its process, that by its namespace and the kernel's start: nodes and
# containers share homes, and their processes have the same numbers.
kernel=$(cut -c 1-8 /proc/sys/kernel/random/boot_id 2>/dev/null) || :
here=$kernel-$(readlink /proc/self/ns/pid | tr -cd 0-9)
root=$seed/root.$here.$$ debs=$seed/debs
part=$root/part

# What stopped runs left: here, whose process is gone; elsewhere, who did nothing for a day.
touch -d "@$(($(date +%s) - 86400))" "$seed/yesterday.$here.$$" 2>/dev/null || :
for left in "$seed"/root.*; do
    case $left in
    "$root") ;;
    "$seed/root.$here".*) ! kill -0 "${left##*.}" 2>/dev/null || continue ;;
    *) [ "$left" -ot "$seed/yesterday.$here.$$" ] || continue ;;
    esac
    rm -rf "$left" || :  # NFS keeps the name of a file that is open
done
rm -f "$seed"/yesterday.*

trap 'rm -rf "$root"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
. "${0%/*}/bring.sh"
mkdir "$root" "$root/programs" "$root/none"

# -- bringing and unpacking -----------------------------------------------------------------

# An ar archive, whose third member is data.tar.xz (deb(5)): headers of 60 bytes, the name
# first, the size from byte 48; members begin at even offsets.
unpack() {  # DEB
    if ! has xz; then
        dpkg-deb -x "$1" "$root"
        return
    fi
    offset=8 length=$(wc -c <"$1")
    while [ $offset -lt "$length" ]; do
        header=$(head -c $((offset + 60)) "$1" | tail -c 60)
        size=$(printf '%s\n' "$header" | cut -c 49-58 | tr -d ' ')
        case $header in
        data.tar.xz*)
            head -c $((offset + 60 + size)) "$1" | tail -c "$size" | xz -dc |
                (cd "$root" && tar -xof -)  # -C would read a backslash
            return ;;
        esac
        offset=$((offset + 60 + size + size % 2))
    done
    echo "it has no data.tar.xz" && return 1
}

bring_all() {  # [POOL SHA256]...
    count=$(($# / 2)) failed=0 failures=''
    [ "$count" -gt 0 ] ||
        fail "the locks pin nothing for this machine" where "$pins" next "git checkout nix/pins"
    echo "this machine has not what the tools need: bringing $count packages of the pins" >&2
    while [ $# -gt 0 ]; do
        if bring "$1" "$2"; then
            [ $failed -gt 0 ] || said=$(unpack "$part" 2>&1) ||
                full "a package cannot be unpacked" "$1" "$said"
            # If another run ends now, debs may be gone.
            mv "$part" "$debs/${1##*/}" 2>/dev/null || rm -f "$part"
        else
            failed=$((failed + 1))
            [ $failed -gt 3 ] || failures="$failures
  where:    ${1##*/}$tried
  expected: SHA-256 $2"
        fi
        shift 2
        [ ! -t 2 ] || printf '\r%s of %s' $((count - $# / 2)) "$count" >&2
    done
    [ ! -t 2 ] || echo >&2
    [ $failed = 0 ] && return
    # A mirror's password is nobody else's business.
    failures=$(printf '%s\n' "$failures" | sed 's#://[^/@ ]*@#://#g')
    fail "$failed of $count packages could not be brought$failures" \
        next "set APERTUS_DEBIAN_MIRRORS or APERTUS_DEBIAN_SNAPSHOT to who has them, and run it again: it goes on"
}

bring_all $(pinned)

# Debian's requests reads this machine's certificates when it is imported, and there may be none.
cat "$root/usr/share/ca-certificates/mozilla/"*.crt >"$root/certificates.crt"
core=$root/usr/lib/python3/dist-packages/certifi/core.py
ours="__import__('os').environ['APERTUS_SEED'] + '/certificates.crt'"
sed "s|'/etc/ssl/certs/ca-certificates.crt'|$ours|" "$core" >"$core.new"
mv "$core.new" "$core"

for pair in python3:python3.13 git:git nix:nix nix-store:nix; do
    cat >"$root/programs/${pair%:*}" <<END
#!/bin/sh
lib=\$APERTUS_SEED/usr/lib/$machine-linux-gnu
exec "\$lib/$loader" --inhibit-cache --library-path "\$lib" \\
    --argv0 "\$0" "\$APERTUS_SEED/usr/bin/${pair#*:}" "\$@"
END
    chmod 755 "$root/programs/${pair%:*}"
done

# -- the command ----------------------------------------------------------------------------

unset LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD NIX_CONFIG NIX_PATH NIX_REMOTE NIX_STORE NIX_STORE_DIR
unset PYTHONEXECUTABLE PYTHONINSPECT PYTHONOPTIMIZE PYTHONPLATLIBDIR
export APERTUS_SEED="$root" APERTUS_DEBIAN_MIRRORS="$debs $mirrors" PATH="$root/programs:$PATH" \
    PYTHONHOME="$root/usr" PYTHONPATH="$project/tools" PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 GIT_EXEC_PATH="$root/usr/lib/git-core" NIX_BIN_DIR="$root/programs" \
    NIX_CONF_DIR="$root/none" NIX_USER_CONF_FILES="$root/none/nix.conf"
said=$("$root/programs/python3" -c '' 2>&1) || fail "programs cannot be started from the cache" \
    where "$root" got "$said" \
    next "set XDG_CACHE_HOME to a folder without : in its path, on a file system without noexec"
"$root/programs/python3" -m apertus_image.commands.bootstrap "$@"

rm -rf "$root" || :
set -- "$seed"/root.*
[ -e "$1" ] || rm -rf "$debs"  # or another run needs them
