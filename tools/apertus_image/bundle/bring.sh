# Pinned Debian packages, one at a time, by what a bare machine has. Sourced by seed.sh.
#
# In: fail(), has(); pins, the folder of the locks; debian, the machine as Debian names it;
# debs, where packages of former runs lie; part, the file to bring a package into.

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

# What asks them. apt knows the proxies and certificates of its own.
helper=/usr/lib/apt/apt-helper
if [ -x $helper ] && [ -z "${APERTUS_DEBIAN_MIRRORS:-}" ]; then
    client=apt
elif has curl; then
    client=curl
elif has wget; then
    client=wget
    # Busybox's has no options, and falls over -T where it was built without.
    case $(wget --help 2>&1) in *--tries=*) ;; *) client=busybox ;; esac
elif [ -x $helper ]; then
    client=apt
else
    client=none
fi
silent=

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
        *) printf '%s\n' "$mirror/$1" "$mirror/${1##*/}" ;;
        esac
    done
    for archive in ${APERTUS_DEBIAN_SNAPSHOT:-}; do
        echo "${archive%/}/$(stamp)/$quoted"
    done
}

get() {  # PLACE
    case $1 in *://*) ;; *) cp "$1" "$part"; return ;; esac
    case $client in
    apt) $helper ${APERTUS_CA_BUNDLE:+-o "Acquire::https::CAInfo=$APERTUS_CA_BUNDLE"} \
        download-file "$1" "$part" >/dev/null ;;
    curl) curl -fsSL --retry 2 --retry-max-time 60 --connect-timeout 30 --speed-limit 1 \
        --speed-time 60 ${APERTUS_CA_BUNDLE:+--cacert "$APERTUS_CA_BUNDLE"} -o "$part" "$1" ;;
    wget) wget -q -t 3 -T 60 ${APERTUS_CA_BUNDLE:+"--ca-certificate=$APERTUS_CA_BUNDLE"} \
        -O "$part" "$1" ;;
    busybox) wget -q -O "$part" "$1" ;;
    none) echo "there is no curl, wget or apt here" && return 1 ;;
    esac
}

first_line() { printf '%s\n' "$1" | sed -n '/^W:/d;/[^[:space:]]/{p;q;}'; }

full() {  # WHAT WHERE SAID
    fail "$1" where "$2" got "$(first_line "$3")" \
        next "make room (0.3 GB), or set XDG_CACHE_HOME to a larger disk, and run it again: it goes on"
}

bring() {  # POOL SHA256; into $part, or what was tried into $tried
    tried=
    for place in "$debs/${1##*/}" $(places "$1"); do
        [ "$place" != "$debs/${1##*/}" ] || [ -f "$place" ] || continue
        code=0 began=$(date +%s) host=${place%"${place#*://*/}"}  # of a folder, nothing
        case " $silent " in
        *" ${host:--} "*) said="it did not answer before" code=1 ;;
        *) said=$(LC_ALL=C && export LC_ALL && get "$place" 2>&1) || code=$? ;;
        esac
        if [ $code = 0 ]; then
            said="SHA-256 $(sha256sum <"$part" | cut -d' ' -f1)"  # it decides, whoever sent it
            [ "$said" != "SHA-256 $2" ] || return 0
        fi
        rm -f "$part"
        case $client:$code:$said in
        curl:23:* | wget:3:* | *'No space left'* | *'uota exceeded'*)
            full "the cache cannot be written" "$seed" "$said" ;;
        # It answered: another package may be there.
        *:0:* | curl:18:* | curl:22:* | curl:56:* | wget:8:* | *HTTP/* | *' 404 '*) ;;
        # Who does not answer is waited for once, not for each package.
        *) [ $(($(date +%s) - began)) -lt 5 ] || silent="$silent $host" ;;
        esac
        tried="$tried
  tried:    $place ($(first_line "${said:-exit code $code}"))"
    done
    return 1
}
