"""Images that are hard to import rightly, one construct each, lowest layer first.

What Enroot's importer makes of each was seen by running it (enroot.json): IMPORTED it imports,
REFUSED it stops at. Where the export does otherwise, the reason stands there.
"""

from __future__ import annotations

import tarfile

from support.layouts import (
    END,
    Layer,
    Member,
    device,
    fifo,
    file,
    folder,
    gnu_sparse,
    gnu_times,
    gone,
    hard,
    layer,
    link,
    opaque,
    pax_sparse,
    sized,
    typed,
)

Layers = list[list[Member]]
PAX = tarfile.PAX_FORMAT
BASE = [folder("a"), file("a/one", "1"), file("a/two", "2"), folder("a/sub", 0o750),
        file("a/sub/deep", "d"), file("b", "b")]


def _global(key: str, value: str) -> bytes:
    """A PAX header for all that follows."""
    return tarfile.TarInfo.create_pax_global_header({key: value})


SPARSE = {0: b"start" * 1024, 3 << 20: b"x" * 512, 8 << 30: b"end"}

IMPORTED: dict[str, Layers] = {
    # whiteouts
    "whiteout of a file": [BASE, [gone("a/one")]],
    "whiteout of a folder": [BASE, [gone("a/sub")]],
    "whiteout at the root": [BASE, [gone("b"), gone("a")]],
    "whiteout of what is not there": [BASE, [gone("a/none"), gone("none/x")]],
    "whiteout in the lowest layer": [[gone("x"), file("y")]],
    "whiteout, then again in a later layer": [BASE, [gone("a")], [file("a/new", "n")]],
    "file again above its whiteout": [BASE, [gone("b")], [file("b", "back", 0o600)]],
    "whiteout of a link": [[link("l", "b"), file("b")], [gone("l")]],
    "whiteout below a link's name": [[folder("usr/lib"), file("usr/lib/x"), link("lib", "usr/lib")],
                                     [gone("lib/x")]],
    "whiteout that is a folder": [BASE, [folder("a/.wh.one")]],
    "whiteout of a name that starts like one": [[file("a/.hidden")], [gone("a/.hidden")]],
    "whiteout of a name with the word in it": [[file("x.wh.y"), file("x")], [gone("x.wh.y")]],
    "opaque folder": [BASE, [folder("a"), opaque("a"), file("a/new", "n")]],
    "opaque folder without an entry": [BASE, [opaque("a"), file("a/new", "n")]],
    "opaque marker after what it keeps": [BASE, [folder("a"), file("a/new"), opaque("a")]],
    "opaque folder, deep": [BASE, [folder("a/sub", 0o700), opaque("a/sub")]],
    "opaque, then merged above": [BASE, [opaque("a"), file("a/mid")], [file("a/top")]],
    "opaque over a file": [[file("a", "file")], [folder("a"), opaque("a"), file("a/x")]],
    "whiteout with text, a link, a FIFO": [BASE, [file("a/.wh.one", "x", 0o777),
                                                  link("a/.wh.two", "x"), fifo("a/.wh.sub")]],
    "opaque mark that is a folder": [BASE, [folder("a/.wh..wh..opq"), file("a/new")]],
    "marks that are none": [BASE, [file("a/.wh"), file("a/wh.one"), file("a/.WH.two"),
                                   file("a/.wh..opq")]],
    "whiteout behind a link": [BASE, [folder("a"), link("l", "a"), gone("l/one")]],
    "opaque mark behind a link": [BASE, [folder("a"), link("l", "a"), opaque("l")]],
    # one thing replaced by another
    "file over a folder": [BASE, [file("a", "now a file")]],
    "folder over a file": [BASE, [folder("b", 0o711), file("b/x")]],
    "folder over a file over a folder": [BASE, [file("a", "f")], [file("a/new", "n")]],
    "link over a folder": [BASE, [link("a", "b")]],
    "folder over a link": [[folder("usr/lib"), file("usr/lib/x"), link("lib", "usr/lib")],
                           [folder("lib"), file("lib/foo")]],
    "file below a link's name": [[folder("usr/lib"), file("usr/lib/x"), link("lib", "usr/lib")],
                                 [file("lib/foo", "f")]],
    "file below an absolute link's name": [[folder("usr/lib"), link("lib", "/usr/lib")],
                                           [file("lib/foo", "f")]],
    "link over a file over a link": [[link("l", "1")], [file("l")], [link("l", "2")]],
    "fifo over a file": [BASE, [fifo("b", 0o600)]],
    # links within one layer
    "file through a link of its layer": [[folder("usr/lib"), link("lib", "usr/lib"),
                                          file("lib/foo", "f")]],
    "folder over a link of its layer": [[folder("usr/lib"), link("lib", "usr/lib"),
                                         folder("lib"), file("lib/foo", "f")]],
    "file through links of its layer": [[folder("r/s"), link("b", "./r//s/"), link("c", "b"),
                                         file("c/f", "x"), folder("d/e/f"), link("d/l", "e/f"),
                                         file("d/l/g", "y"), hard("h", "d/l/g")]],
    "file through a link to its own folder": [[link("b", "."), file("b/f", "x")]],
    "link, with things below in other layers": [[folder("d"), file("d/x")],
                                                [link("d", "e"), folder("e")], [file("d/y")]],
    # modes
    "folder's later mode": [BASE, [folder("a", 0o2770)]],
    "folder implied above": [[folder("a", 0o700), file("a/x")], [file("a/y")]],
    "folder implied below": [[file("a/x")], [folder("a", 0o1777)]],
    "folder after what it holds": [[file("a/x"), folder("a", 0o700)]],
    "entries without parents": [[file("p/q/r", "x", 0o600)]],
    "setuid, setgid, sticky": [[file("u", "u", 0o4755), file("g", "g", 0o2755),
                                file("t", "t", 0o1644), folder("d", 0o3777),
                                file("ug", "", 0o6711)]],
    "mode 0000": [[file("f", "f", 0), folder("d", 0), file("d/in", "in", 0), link("l", "f", 0)]],
    "modes that lack the owner": [[file(f"{mode:04o}", "", mode) for mode in (
        0o001, 0o010, 0o011, 0o066, 0o077, 0o111, 0o222, 0o333, 0o4011, 0o100, 0o055)]],
    "folders that lack the owner": [[folder(f"{mode:04o}", mode) for mode in (
        0o001, 0o055, 0o111, 0o222, 0o444, 0o555, 0o2555, 0o1077)]],
    "0555 folders, deep": [[folder("/".join("123456789abcdefgh"[:n]), 0o555)
                            for n in range(1, 18)]],
    "root folder with a mode": [[folder("./", 0o700), file("x")]],
    # hard links
    "hard link": [[file("a", "text", 0o640), hard("b", "a", 0o777), folder("d"),
                   hard("d/c", "a")]],
    "hard link to a link": [[link("l", "nowhere"), hard("m", "l", 0o777)]],
    "hard link whose file is gone above": [[file("a", "text"), hard("b", "a")], [gone("a")]],
    "hard link whose file changes above": [[file("a", "text"), hard("b", "a")],
                                           [file("a", "other")]],
    "hard link to a file of this layer and another": [[file("a", "low")],
                                                      [file("a", "high"), hard("b", "a")]],
    "hard link and its file twice": [[file("a", "1"), hard("b", "a"), file("a", "2")]],
    "hard link with a leading dot": [[file("./a", "text"), hard("./b", "./a")]],
    "hard link, absolute": [[file("/a", "text"), hard("/b", "/a")]],
    # the same name twice in one layer
    "file twice": [[file("a", "1", 0o600), file("a", "2", 0o644)]],
    "link, then file": [[link("a", "b"), file("a", "f"), file("b", "b")]],
    "file, then link": [[file("a", "f"), link("a", "b")]],
    "file, then folder": [[file("a", "f"), folder("a"), file("a/x", "x")]],
    "empty folder, then file": [[folder("a"), file("a", "f")]],
    "folder twice": [[folder("a", 0o700), file("a/x"), folder("a", 0o711)]],
    "whiteout twice": [BASE, [gone("b"), gone("b")]],
    # names
    "dotted and absolute names": [[folder("./"), folder("./a"), file("./a/x", "x"),
                                   file("/b/y", "y"), file("c//z", "z"), file("e/./w", "w")]],
    "dotted whiteouts": [BASE, [gone("./a/one"), gone("/b")]],
    "long names": [[file("n" * 101, "1"), file(f"{'d' * 50}/" * 4 + "f" * 52, "256"),
                    file("m" * 255), link("l", "t" * 300), file("p" * 101, "1", form=PAX),
                    file(f"{'e' * 50}/" * 4 + "f" * 52, "256", form=PAX),
                    link("k", "t" * 300, form=PAX), hard("h" * 120, "n" * 101)]],
    "foreign names": [[file("é/日本", "x"), file("ü", "x", form=PAX), link("ß", "é/日本"),
                       file("cafe\u0301", "x"), file("caf\u00e9", "y")]],
    "names that are no UTF-8": [[file(b"\xff\xfe", "x"), folder(b"d\x80"), file(b"d\x80/\xe9", "y"),
                                 link(b"l\xff", "t\udcff")]],
    "names that need quoting": [[file("a b", "1"), file('q"\'\\', "2"), file("tab\there", "3"),
                                 file("*?[", "4"), file(" lead", "5"), file("trail ", "6"),
                                 file("\\n", "7"), file("#x", "8"), link("l", 'x "y\\ z ')]],
    "names like comments": [[file("#"), file("#a", "1"), folder("#d"), file("#d/#e", "2"),
                             link("#l", "#a"), file("# START OF DATA - DO NOT MODIFY", "3")]],
    "names with a backslash at the end": [[file("a\\", "1"), folder("b\\"), file("b\\/c\\")]],
    # types
    "fifos": [[fifo("f", 0), folder("run"), fifo("run/g", 0o622)]],
    "sparse, GNU": [[gnu_sparse("s", (1 << 22) + 5, {0: b"s" * 512, 3 << 20: b"x" * 700}),
                     file("after", "it")]],
    "sparse, PAX": [[pax_sparse("s", 1 << 22, {4096: b"x" * 1024, (1 << 22) - 3: b"end"}),
                     file("after", "it")]],
    "sparse, nothing but holes": [[gnu_sparse("s", 1 << 20, {}), pax_sparse("t", 1 << 20, {}),
                                    file("after", "it")]],
    "sparse, 8 GiB": [[gnu_sparse("gnu", (8 << 30) + 3, SPARSE)]],
    "sparse, 8 GiB, PAX": [[pax_sparse("pax", (8 << 30) + 3, SPARSE)]],
    # below /dev
    "below dev": [[folder("dev", 0o700), device("dev/null"), device("dev/sda", 8, 0, block=True),
                   file("dev/file"), folder("dev/shm"), file("dev/shm/x"), link("dev/fd", "x")]],
    "below dev, dotted and absolute": [[device("./dev/null"), file("./dev/x"), file("/dev/y"),
                                        file("/dev/z/w"), file("a/dev/kept", "k")]],
    "dev alone implied": [[file("dev/x"), file("y")]],
    "dev is a link": [[link("dev", "run"), folder("run"), file("z")]],
    "dev's whiteout": [[folder("dev", 0o711), file("x")], [gone("dev/null"), gone("dev")]],
    # what Enroot writes itself
    "etc of another mode": [[folder("etc", 0o700), file("etc/passwd", "root"),
                             file("etc/rc", "old", 0o600), link("etc/environment", "/dev/null"),
                             folder("etc/fstab"), file("etc/fstab/x"), link("etc/rc.local", "x")]],
    "etc a relative link": [[folder("usr/etc"), file("usr/etc/passwd", "p"),
                             link("etc", "usr/etc")]],
    "etc an absolute link": [[folder("usr/etc"), file("usr/etc/passwd"), link("etc", "/usr/etc")]],
    "etc a file": [[file("etc", "x")]],
    "etc's absolute links": [[link("etc/passwd", "/nix/store/x"), link("etc/group", "../g")]],
    "no etc": [[file("x")]],
    "docker's own files": [[file(".dockerenv"), file("run/.containerenv"), file("sys/x"),
                            file("proc/y")]],
    # layers
    "no end blocks": [[file("a", "text")]],
    "an empty layer": [[], [file("a")], []],
    "many layers": [[file(f"d/{n}", str(n))] for n in range(40)],
    "bytes after the end": [[file("a", "x"), Member(END), file("b", "y")]],
    "a lone zero block": [[file("a", "x"), Member(bytes(512)), file("b", "y")]],
    "headers that are no files": [[Member(_global("comment", "c")), file("a", "x")]],
    "a global header's path": [[Member(_global("path", "b")), file("a", "x")]],
    "old headers": [[typed("old", b"\0", "x"), typed("folder/", b"\0"), typed("also/", b"0")]],
    "a contiguous file": [[typed("contiguous", b"7", "x")]],
    "GNU's times where the prefix stands elsewhere": [[gnu_times("a", "x")]],
    "a size in a PAX header": [[file("a", "x" * 600, form=PAX, pax_headers={"size": "600"})]],
    "attributes": [[file("f", "f", form=PAX, pax_headers={
        "SCHILY.xattr.user.x": "1", "SCHILY.xattr.security.capability": "x", "comment": "c"})]],
}

# Enroot imports these, but `enroot create` fails on devices, and overlayfs hides nothing where the
# mark is at the root, whatever image-spec says: the export refuses them.
REFUSED_BY_US: dict[str, Layers] = {
    "opaque root": [BASE, [opaque(""), file("new")]],
    "device": [[device("n"), file("x")]],
    "device, block": [[device("x/b", 8, 0, block=True)]],
    "device below another dev": [[device("a/dev/null")]],
    "device 0:0": [[file("zero", "low"), file("other")], [device("zero", 0, 0)]],
}

# Enroot imports these too; the export refuses them, as it could not keep them or be sure of them.
UNTELLABLE: dict[str, Layers] = {
    # mksquashfs is told of names line by line, with the next line after a backslash.
    "line ends in names": [[file("a\nb", "x"), file("y")]],
    "line ends in targets": [[link("l", "a\nb")]],
    "blanks before a target": [[link("l", " x")]],
    "a backslash after a target": [[link("l", "d\\"), file("x")]],
    # GNU tar cuts it there.
    "a name with a zero": [[file("a", "x", form=PAX, pax_headers={"path": "a\0b"})]],
    # GNU tar takes every part to fill its blocks, Python's tarfile does not.
    "sparse parts that fill no block": [[pax_sparse("s", 4096, {0: b"x", 1024: b"y"})]],
}

REFUSED: dict[str, Layers] = {
    "hard link to a later file": [[hard("b", "a"), file("a", "text")]],
    "hard link to what is nowhere": [[hard("b", "none")]],
    "hard link to a folder": [[folder("a"), hard("b", "a")]],
    "name that climbs": [[file("../x", "x")]],
    "name that climbs inside": [[folder("a"), file("a/../x", "x")]],
    "hard link that climbs": [[file("a", "x"), hard("b", "../../etc/passwd")]],
    "another whiteout word": [BASE, [file("a/.wh..wh.plnk")]],
    "aufs's own": [BASE, [folder(".wh..wh.aufs")]],
    "opaque mark that holds something": [BASE, [file("a/.wh..wh..opq/x")]],
    "whiteout of the folder itself": [BASE, [file("a/.wh..")]],
    "whiteout of the folder above": [BASE, [file("a/.wh...")]],
    "whiteout of nothing": [BASE, [file("a/.wh.", "")]],
    "whiteout that holds something": [BASE, [file("a/.wh.one/x")]],
    "folder with something, then file": [[file("a/x"), file("a", "f")]],
    "folder with something, then link": [[file("a/x"), link("a", "f")]],
    "file, then what lies below it": [[file("a", "f"), file("a/x", "x")]],
    "file through an absolute link of its layer": [[folder("usr/lib"), link("lib", "/usr/lib"),
                                                    file("lib/foo", "f")]],
    "file through a climbing link of its layer": [[link("lib", "../../tmp"),
                                                   file("lib/foo", "f")]],
    "file through a link to nowhere": [[link("lib", "none"), file("lib/foo", "f")]],
    "a root that is a file": [[file("./", "x"), file("a")]],
    "a root that is a link": [[link(".", "a"), folder("a")]],
    "a name that is empty": [[file("", "x"), file("a")]],
    "a link without a target": [[link("l", "")]],
    "links in a circle": [[link("b", "c"), link("c", "b"), file("b/f")]],
    "a path of 4096 bytes": [[file(f"{'d' * 255}/" * 15 + "f" * 255)]],
    "a target of 4096 bytes": [[link("l", "t" * 4096)]],
    "a size that is none": [[file("a", "x"), sized(b"\xff" * 12), file("b")]],
    "a size beyond all": [[file("a", "x"), sized(b"\x80" + b"\x7f" * 11), file("b")]],
    "a size in words": [[file("a", "x", form=PAX, pax_headers={"size": "many"})]],
    "a header that is none": [[file("a", "x"), Member(b"garbage!" * 64)]],
    "a file cut short": [[Member(file("a", "x" * 5000).head, b"x" * 512)]],
    "name too long": [[file("x" * 256)]],
}

# Enroot stops at these, but what they mean is clear, and other runtimes take them: each with an
# image that is the same.
IMPORTED_BY_US: dict[str, tuple[Layers, Layers]] = {
    "hard link to another layer's file": (
        [[file("a", "text", 0o4750)], [hard("b", "a", 0o600)]],
        [[file("a", "text", 0o4750), file("b", "text", 0o4750)]]),
    "hard link in place of a file that goes": (
        [[file("a", "text", 0o640)], [gone("a"), hard("b", "a")]],
        [[file("b", "text", 0o640)]]),
    "hard link to what its layer replaces later": (
        [[file("a", "low")], [hard("b", "a"), file("a", "high")]],
        [[file("a", "high"), file("b", "low")]]),
    "hard link to a lower link": (
        [[link("a", "nowhere")], [hard("b", "a")]],
        [[link("a", "nowhere"), link("b", "nowhere")]]),
    "whiteout and file in one layer": (
        [BASE, [gone("b"), file("b", "new")]], [BASE, [file("b", "new")]]),
    "file and whiteout in one layer": (
        [BASE, [file("b", "new"), gone("b")]], [BASE, [file("b", "new")]]),
    "whiteout and folder in one layer": (
        [BASE, [gone("a"), folder("a", 0o711), file("a/x", "x")]],
        [BASE, [folder("a", 0o711), opaque("a"), file("a/x", "x")]]),
    "whiteout and what lies below it in one layer": (
        [BASE, [file("a/x", "x"), gone("a")]], [BASE, [opaque("a"), file("a/x", "x")]]),
}

EVERY = (IMPORTED | REFUSED_BY_US | UNTELLABLE | REFUSED
         | {name: image for name, (image, _) in IMPORTED_BY_US.items()})


def layers(name: str, compression: str = "gzip") -> list[Layer]:
    """The layers of the image of that name."""
    end = b"" if name == "no end blocks" else END
    return packed(EVERY[name], compression, end)


def packed(image: Layers, compression: str = "gzip", end: bytes = END) -> list[Layer]:
    return [layer(*members, compression=compression, end=end) for members in image]
