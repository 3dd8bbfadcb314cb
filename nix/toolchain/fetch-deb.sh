# Builder of a .deb as a fixed-output path, where the build may use the network.
#
# The toolchain is made of .debs, so nothing but the bootstrap's bash and busybox can run
# here. Mirrors come from APERTUS_* variables alone: apt's own lists are not in the
# sandbox (trap 7). The hash decides: busybox's wget does not check certificates, and
# need not.
#
# In: busybox, pool (path below a mirror), sha256, size, date (of the lock), out.
set -u
export PATH=

applet() { (exec -a "$1" "$busybox" "${@:2}"); }

file=${pool##*/}
# The lock's date ("Sat, 21 Nov 2026 09:15:44 UTC") as a snapshot archive wants it, a day
# later: asked with a time between two imports, an archive gives the one before it.
stamp() {
    local months=JanFebMarAprMayJunJulAugSepOctNovDec before seconds
    set -- $date
    before=${months%%"$3"*}
    seconds=$(applet date -u -d "$4-$((${#before} / 3 + 1))-$2 $5" +%s)
    applet date -u -d "@$((seconds + 86400))" +%Y%m%dT%H%M%SZ
}

candidates() {
    local base
    for base in ${APERTUS_DEBIAN_MIRRORS:-}; do
        case $base in
        # A folder has the pool, or just the files.
        /* | file://*) echo "${base#file://}/$pool"; echo "${base#file://}/$file" ;;
        *) echo "${base%/}/$pool" ;;
        esac
    done
    for base in ${APERTUS_DEBIAN_SNAPSHOT:-}; do
        echo "${base%/}/$(stamp)/$pool"
    done
}

# Prints what is wrong with FILE, if anything.
fault() {
    local got
    got=$(applet stat -c %s "$1")
    if [ "$got" != "$size" ]; then
        echo "$got bytes instead of $size"
        return
    fi
    got=$(applet sha256sum "$1")
    [ "${got%% *}" = "$sha256" ] || echo "SHA-256 ${got%% *}"
}

failures=
for url in $(candidates); do
    # Plus signs are data in a pool path but a space to some servers.
    case $url in
    /*) said=$(applet cp "$url" part 2>&1) ;;
    *) said=$(applet wget -q -T 30 -O part "${url//+/%2b}" 2>&1) ;;
    esac
    if [ $? = 0 ]; then
        said=$(fault part)
        if [ -z "$said" ]; then
            applet mv part "$out"
            exit 0
        fi
    fi
    # A proxy's or mirror's password is nobody else's business.
    failures+=$'\n'"  tried:    ${url//:\/\/*@/:\/\/} (${said##*$'\n'})"
done

{
    if [ -z "$failures" ]; then
        echo "error: $file is not in the store, and this build was told no mirror"
    else
        echo "error: no mirror has $file$failures"
    fi
    echo "  expected: SHA-256 $sha256, $size bytes"
    echo "  next:     run: tools/prefetch"
} >&2
exit 1
