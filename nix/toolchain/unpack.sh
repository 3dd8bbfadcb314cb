# Builder of the toolchain: Debian packages made to run from where they lie in the store.
#
# In: debs, triplet, programs, certificates, out. An allow list decides what stays: the programs named,
# the shared libraries and Python's modules.
python=python3.13
root=$PWD/root

mkdir "$root"
for deb in $debs; do
    dpkg-deb -x "$deb" "$root"
done

libraries=$out/lib/$triplet
mkdir -p "$out/bin" "$libraries"
cp -a "$root/usr/lib/$triplet"/*.so* "$libraries"
cp -a "$root/usr/lib/$python" "$root/usr/lib/python3" "$out/lib"

# requests reads this file when it is imported, and the sandbox has no /etc.
bundle=$out/etc/ssl/certs/ca-certificates.crt
mkdir -p "${bundle%/*}"
cp "$certificates" "$bundle"
sed -i "s|'/etc/ssl/certs/ca-certificates.crt'|'$bundle'|" "$out/lib/python3/dist-packages/certifi/core.py"
grep -qF "'$bundle'" "$out/lib/python3/dist-packages/certifi/core.py"

# Not needed by any builder; the site hook is a link to /etc of whoever runs this.
for name in ensurepip idlelib lib2to3 pydoc_data test tkinter turtle.py turtledemo \
    sitecustomize.py EXTERNALLY-MANAGED; do
    rm -rf "$out/lib/$python/$name"
done
rm -rf "$out/lib/$python"/config-*
find "$out/lib" -name __pycache__ -prune -exec rm -r {} +

# DT_RPATH, not RUNPATH: a library's own needs, and those of Python's extension modules,
# must come from here too, and before the loader's default folders. With pages of 4 KiB
# patchelf 0.18 makes segments of Debian's Python (no PIE) overlap, and it crashes.
loader=$(echo "$libraries"/ld-linux-*.so.*)
patchelf() {
    "$loader" --library-path "$libraries" "$root/usr/bin/patchelf" "$@"
}
for program in $programs; do
    cp "$root/usr/bin/$program" "$out/bin/$program"
    chmod 755 "$out/bin/$program"
    patchelf --page-size 65536 --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" \
        "$out/bin/$program"
done
ln -s "$python" "$out/bin/python3"

# Compiled here and never checked: a start is faster, and running this Python as root
# outside a sandbox writes no cache into the store. One process, one order, one hash seed:
# the same bytes each time.
PYTHONHASHSEED=0 "$out/bin/python3" -s -P -B -m compileall -q -j 1 \
    --invalidation-mode unchecked-hash "$out/lib/$python" "$out/lib/python3/dist-packages"

dangling=$(find "$out" -type l ! -exec test -e {} \; -print)
if [ -n "$dangling" ]; then
    echo "error: the toolchain has links to nothing: $dangling" >&2
    exit 1
fi
