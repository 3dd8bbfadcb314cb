#!/bin/sh
# tools/bootstrap where there is no Python and no Nix: both come out of the pins.
#
#   seed.sh PROJECT ARGUMENTS     as tools/bootstrap ARGUMENTS
#
# The packages of the folder that is to be made are brought first, by what this machine
# has, and the command is run on them. Needs sh, coreutils, sed, tar and xz, and for mirrors
# that are no folders curl, wget or apt; Debian's dpkg-deb does for xz. What is brought is kept until the folder is made,
# so a run that was stopped goes on.
set -eu

project=$1
shift
pins=$project/nix/pins
seed=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/apertus-image/seed
debs=$seed/debs
root=$seed/root.$$

fail() {  # WHAT [FIELD TEXT]...
    echo "error: $1"
    shift
    while [ $# -gt 0 ]; do
        printf '  %-10s%s\n' "$1:" "$2"
        shift 2
    done
    exit 1
} >&2

has() { command -v "$1" >/dev/null 2>&1; }

# -- what this machine is and has -----------------------------------------------------------

machine=$(uname -m)
case $machine in
x86_64) debian=amd64 loader=ld-linux-x86-64.so.2 ;;
aarch64) debian=arm64 loader=ld-linux-aarch64.so.1 ;;
*) fail "no pins for this machine" expected "x86_64 or aarch64" got "$machine" ;;
esac
triplet=$machine-linux-gnu

lacking=
for program in cat chmod cp cut head mkdir mv rm sed sha256sum sort tail tar wc \
    $(has dpkg-deb || echo xz); do
    has "$program" || lacking="$lacking $program"
done
[ -z "$lacking" ] || fail "programs are missing here" expected "$lacking" \
    next "install them, or make the folder on another machine and copy it (docs/site.md)"

# What apt would ask for its lists; it names a list of mirrors by `mirror+file:`
# (apt-transport-mirror(1)).
apt_mirrors() {
    has apt-get || return 0
    apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)/dists/.*|\1|p" | sort -u |
        while read -r uri; do
            case $uri in
            mirror+file:*) sed -n 's/^[[:space:]]*\([^#[:space:]]*\).*/\1/p' "${uri#mirror+file:}" ;;
            *) echo "$uri" ;;
            esac
        done
}

mirrors=${APERTUS_DEBIAN_MIRRORS:-$(apt_mirrors)}
[ -n "$mirrors${APERTUS_DEBIAN_SNAPSHOT:-}" ] || fail "no Debian mirror is known here" \
    where "APERTUS_DEBIAN_MIRRORS is not set, and apt has none either" \
    next "set it to a mirror's URL (…/debian), or to a folder with the packages"

# -- bringing -------------------------------------------------------------------------------

# One pin a line, as tools/lock writes them: POOL SHA256.
pinned() {
    for lock in toolchain bundle; do
        sed -n "/^  \"$debian\": \[/,/^  \]/s/.*\"path\": \"\([^\"]*\)\", \"sha256\": \"\([^\"]*\)\".*/\1 \2/p" \
            "$pins/$lock.json"
    done | sort -u
}

# The lock's date as a snapshot archive wants it, a day later: asked with a time between two
# imports, an archive gives the state before it (fetch/places.py).
stamp() {
    set -- $(sed -n 's/^  "date": "[A-Za-z]*, \([^"]*\) UTC".*/\1/p' "$pins/bundle.json")
    months=JanFebMarAprMayJunJulAugSepOctNovDec
    before=${months%%"$2"*}
    seconds=$(date -u -d "$3-$((${#before} / 3 + 1))-$1 $4" +%s)
    date -u -d "@$((seconds + 86400))" +%Y%m%dT%H%M%SZ
}

places() {  # POOL
    quoted=$(echo "$1" | sed 's/+/%2B/g')  # a plus sign is a space to some servers
    for mirror in $mirrors; do
        case $mirror in
        file:*) mirror=${mirror#file:} && mirror=/${mirror#"${mirror%%[!/]*}"} ;;
        esac
        case $mirror in
        *://*) echo "${mirror%/}/$quoted" ;;
        *) echo "$mirror/$1" && echo "$mirror/${1##*/}" ;;
        esac
    done
    for archive in ${APERTUS_DEBIAN_SNAPSHOT:-}; do
        echo "${archive%/}/$(stamp)/$quoted"
    done
}

# The hash decides, whoever sent it.
get() {  # PLACE FILE
    case $1 in
    *://*)
        if has curl; then
            curl -fsSL --retry 2 --connect-timeout 30 \
                ${APERTUS_CA_BUNDLE:+--cacert "$APERTUS_CA_BUNDLE"} -o "$2" "$1"
        elif has wget; then
            wget -q -T 30 ${APERTUS_CA_BUNDLE:+"--ca-certificate=$APERTUS_CA_BUNDLE"} -O "$2" "$1"
        elif [ -x /usr/lib/apt/apt-helper ]; then
            /usr/lib/apt/apt-helper download-file "$1" "$2" >/dev/null
        else
            echo "there is no curl, wget or apt here" && return 1
        fi ;;
    *) cp "$1" "$2" ;;
    esac 2>&1
}

hash_of() { sha256sum "$1" | cut -d' ' -f1; }

bring() {  # POOL SHA256; what was tried, if nobody has it
    file=$debs/${1##*/} tried=
    if [ -f "$file" ] && [ "$(hash_of "$file")" = "$2" ]; then
        return
    fi
    for place in $(places "$1"); do
        code=0
        said=$(get "$place" "$file.$$") || code=$?
        if [ $code = 0 ]; then
            got=$(hash_of "$file.$$")
            if [ "$got" = "$2" ]; then
                mv "$file.$$" "$file"
                return
            fi
            said="SHA-256 $got"
        fi
        rm -f "$file.$$"
        said=$(echo "${said:-exit code $code}" | sed -n '/^W:/d;/[^[:space:]]/{p;q;}')
        tried="$tried
  tried:    $place ($said)"
    done
    # A mirror's password is nobody else's business.
    echo "  where:    ${1##*/}$tried
  expected: SHA-256 $2" | sed 's#://[^/@ ]*@#://#g'
}

# What stopped runs left, whose process is gone.
for left in "$seed"/root.*; do
    [ ! -d "$left" ] || kill -0 "${left##*.}" 2>/dev/null || rm -rf "$left"
done
mkdir -p "$debs" 2>/dev/null ||
    fail "the cache cannot be written" where "$seed" next "set XDG_CACHE_HOME to a folder of yours"

count=$(pinned | wc -l) done=0 failures=
[ "$count" -gt 0 ] || fail "the locks pin nothing for this machine" where "$pins" next "git checkout nix/pins"
echo "this machine has not what the tools need: bringing $count packages of the pins" >&2
while read -r pool sha256; do
    failed=$(bring "$pool" "$sha256")
    [ -z "$failed" ] || failures="$failures
$failed"
    done=$((done + 1))
    [ ! -t 2 ] || printf '\r%s of %s' "$done" "$count" >&2
done <<END
$(pinned)
END
[ ! -t 2 ] || echo >&2
[ -z "$failures" ] || fail "packages could not be brought$failures" \
    next "set APERTUS_DEBIAN_MIRRORS or APERTUS_DEBIAN_SNAPSHOT to who has them, and run it again: it goes on"

# -- unpacking ------------------------------------------------------------------------------

# An ar archive, whose third member is data.tar.xz (deb(5)): headers of 60 bytes, the name
# first, the size from byte 48; members begin at even offsets.
unpack() {  # DEB
    if has dpkg-deb; then
        dpkg-deb -x "$1" "$root"
        return
    fi
    offset=8
    while :; do
        header=$(tail -c "+$((offset + 1))" "$1" | head -c 60)
        size=$(echo "$header" | cut -c 49-58 | sed 's/ *$//')
        case $header in data.tar.xz*) break ;; esac
        [ -n "$size" ] || fail "a package has no data.tar.xz" where "$1"
        offset=$((offset + 60 + size + size % 2))
    done
    tail -c "+$((offset + 61))" "$1" | head -c "$size" | xz -dc | tar -xof - -C "$root"
}

trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$root" "$root/programs" "$root/none"
for deb in $(pinned | cut -d' ' -f1); do
    unpack "$debs/${deb##*/}"
done

# Debian's requests reads this machine's certificates when it is imported, and there may be none.
cat "$root/usr/share/ca-certificates/mozilla/"*.crt >"$root/certificates.crt"
core=$root/usr/lib/python3/dist-packages/certifi/core.py
sed "s|'/etc/ssl/certs/ca-certificates.crt'|'$root/certificates.crt'|" "$core" >"$core.new"
mv "$core.new" "$core"

program() {  # NAME FILE
    cat >"$root/programs/$1" <<END
#!/bin/sh
exec "$root/usr/lib/$triplet/$loader" --inhibit-cache --library-path "$root/usr/lib/$triplet" \\
    --argv0 "\$0" "$root/$2" "\$@"
END
    chmod 755 "$root/programs/$1"
}
program python3 usr/bin/python3.13
program git usr/bin/git
program nix usr/bin/nix
program nix-store usr/bin/nix

# -- the command ----------------------------------------------------------------------------

unset PYTHONPATH LD_PRELOAD LD_LIBRARY_PATH NIX_PATH NIX_REMOTE NIX_STORE_DIR
PATH=$root/programs:$PATH PYTHONHOME=$root/usr PYTHONPATH=$project/tools PYTHONNOUSERSITE=1 \
    PYTHONDONTWRITEBYTECODE=1 GIT_EXEC_PATH=$root/usr/lib/git-core NIX_BIN_DIR=$root/programs \
    NIX_CONF_DIR=$root/none NIX_USER_CONF_FILES=$root/none/nix.conf \
    APERTUS_SEED=$root APERTUS_DEBIAN_MIRRORS="$debs $mirrors" \
    "$root/programs/python3" -m apertus_image.commands.bootstrap "$@"
rm -rf "$debs"
