"""Building an image twice, the second time in surroundings as different as they can be had."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apertus_image.audit import again
from apertus_image.audit.checkout import clone, rewritten
from apertus_image.audit.entries import Difference, first_difference
from apertus_image.audit.scratch import give, scratch_folder, umask
from apertus_image.audit.vary import Surroundings, Varied, vary, within
from apertus_image.build.maker import INPUT, Maker, choose
from apertus_image.build.run import build
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record.record import Record
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from apertus_image.squashfs.write import Settings
from apertus_image.store.store import Store

__all__ = ["Compared", "Report", "Reproducer"]

FIRST = Path("first/image")
SECOND = Path("second/another/folder-of_a+longer.name/checkout")
HOME = Path("second/home")


@dataclass(frozen=True)
class Compared:
    """One thing that both builds have.

    Attributes:
        what: its name.
        first, second: digests, or `absent`.
    """

    what: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        return self.first == self.second


@dataclass(frozen=True)
class Report:
    """What a reproduction showed.

    Attributes:
        image: the flake's output.
        commit: hex.
        built: how many derivations were built again.
        inputs: how many fixed inputs they started from.
        varied: what was varied, and what was not.
        compared: digests of both builds, or of the record and the second.
        layer: name of the first layer that differs, empty if none does.
        difference: the first entry of that layer that differs; None if none does.
    """

    image: str
    commit: str
    built: int
    inputs: int
    varied: tuple[Varied, ...]
    compared: tuple[Compared, ...]
    layer: str = ""
    difference: Difference | None = None

    @property
    def same(self) -> bool:
        return all(each.same for each in self.compared)

    def json(self) -> dict[str, Any]:
        """Stable: fields are only added."""
        return {"schema": "apertus-image/reproduction/1", "same": self.same, **asdict(self),
                "compared": [asdict(each) | {"same": each.same} for each in self.compared]}


@dataclass(frozen=True)
class Built:
    """One build, and where its files lie."""

    image: Image
    json: Path
    store: Store


@dataclass(frozen=True)
class Reproducer:
    """How images are built again.

    Attributes:
        project: the clone whose commit is built.
        store: of the first build, which may have it already.
        wanted: what makes the layers of the first build: auto, nix2container, emitter.
        scratch: folder for two checkouts and the second store.
        nix: program of a second Nix, None to look for one on PATH.
        sqsh: whether exports are compared too.
        bring: prefetches what a maker's build of an image of a checkout needs.
        tell: given a line on what begins.
        progress: given a label and a total of bytes, gives what each step is told to.
    """

    project: Path
    store: Store
    wanted: str = "auto"
    scratch: Path | None = None
    nix: Path | None = None
    sqsh: bool = False
    bring: Callable[[Path, str, Maker], None] = lambda _checkout, _image, _maker: None
    tell: Callable[[str], None] = lambda _line: None
    progress: Callable[[str, int], Callable[[int], None]] = lambda _label, _n: lambda _done: None

    def run(self, image: str, commit: str, record: Record | None = None) -> Report:
        """Build an image of a commit twice, and compare.

        Args:
            image: an output of the flake.
            record: what was released of it; both builds are compared with it too.

        Raises:
            UserError: a build fails, something it needs is missing, or there is no room.
        """
        settings = Settings(**record.data["squashfs"]["settings"]) if record else Settings()
        with scratch_folder(self.scratch) as scratch:
            checkout = clone(self.project, commit, scratch / FIRST)
            maker = choose(checkout, self.store, self.wanted)
            self.tell(f"first build, layers by {maker.name}")
            self.bring(checkout, image, maker)
            first = self._first(checkout, image, maker)
            around, varied = vary(scratch, scratch / HOME, self.nix)
            other, makers = self._other(checkout, image, maker)
            inputs = again.inputs_of(checkout, image, self.store, other)
            _room(scratch, first, inputs, self.store, self.sqsh)
            self.tell(f"second build, layers by {other.name}: {len(inputs.closure.built)} "
                      f"derivations from {len(inputs.paths)} inputs")
            second, tools = self._second(scratch, commit, image, other, around, inputs)
            first_sqsh = second_sqsh = ""
            if self.sqsh:
                self.tell("two exports")
                first_tools = self._tools(checkout, maker)
                first_sqsh = self._exported(first, first_tools, settings, checkout.parent)
                second_sqsh = within(around, lambda: self._exported(second, tools, settings,
                                                                    scratch / HOME))
            layer, difference = _first_difference(first, second)
            return Report(
                image, commit, len(inputs.closure.built), len(inputs.paths),
                (*_places(len(inputs.paths)), *varied, makers),
                tuple(_compared(first, second, first_sqsh, second_sqsh, record)),
                layer, difference)

    def _first(self, checkout: Path, image: str, maker: Maker) -> Built:
        path = build(checkout, image, self.store, maker, link=checkout.parent / "result")
        file = self.store.physical(str(path))
        return Built(Image.load(file), file, self.store)

    def _tools(self, checkout: Path, maker: Maker) -> Path:
        path = build(checkout, "toolchain", self.store, maker, link=checkout.parent / "toolchain")
        return self.store.physical(str(path))

    def _other(self, checkout: Path, image: str, maker: Maker) -> tuple[Maker, Varied]:
        """The other maker, if it can be had without asking GitHub, and its row."""
        name = "emitter" if maker.name == INPUT else INPUT
        try:
            other = choose(checkout, self.store, name, answers=lambda _url: False)
            self.bring(checkout, image, other)
        except UserError as error:
            return maker, Varied("layers made by", maker.name,
                                 why=f"{name} cannot be had: {error.what}")
        return other, Varied("layers made by", maker.name, other.name)

    def _second(self, scratch: Path, commit: str, image: str, maker: Maker, around: Surroundings,
                inputs: again.Inputs) -> tuple[Built, Path]:
        """The second build, and its own toolchain."""
        (scratch / HOME / "tmp").mkdir(parents=True)
        store = again.Second(scratch / "second/root", around)
        plain = clone(self.project, commit, scratch / "second/clone")
        checkout = scratch / SECOND
        with umask(around.umask):
            rewritten(plain, checkout)
        again.filled(self.store, store, inputs)
        if around.uid is not None:
            give(scratch / "second", around.uid)
        # The emitter is told by its path, so it is the second checkout's own.
        maker = choose(checkout, self.store, maker.name, answers=lambda _url: False)
        file, tools = (store.physical(str(again.build_again(checkout, each, store, maker, around)))
                       for each in (image, "toolchain"))
        return Built(Image.load(file), file, store), tools

    def _exported(self, made: Built, tools: Path, settings: Settings, folder: Path) -> str:
        """The SHA-256 of an export; that it holds the layers' bytes is the exporter's own check."""
        exporter = Exporter(tools / "bin", settings, "quick", progress=self.progress)
        done = exporter.export(StoredImage(made.image, made.store.physical), folder / "image.sqsh")
        return f"sha256:{done.record['sha256']}"


def _places(inputs: int) -> tuple[Varied, ...]:
    return (
        Varied("clone's path", str(FIRST), str(SECOND)),
        Varied("clone's files", "as git wrote them",
               "written last name first, dated 2001, modes by the umask"),
        Varied("store", "the usual one, where outputs may have been",
               "another folder's, with the fixed inputs alone: all else is built"),
        Varied("fixed inputs", f"{inputs}", why="their bytes are their pinned hashes"),
    )


def _compared(first: Built, second: Built, first_sqsh: str, second_sqsh: str,
              record: Record | None) -> Iterator[Compared]:
    def digest(built: Built) -> str:
        return f"sha256:{hashlib.sha256(built.json.read_bytes()).hexdigest()}"

    yield Compared("image ID", first.image.image_id, second.image.image_id)
    yield Compared("image JSON", digest(first), digest(second))
    ours = [each.digest for each in first.image.layers]
    theirs = [each.digest for each in second.image.layers]
    for number, (one, other) in enumerate(_padded(ours, theirs)):
        yield Compared(_name(first if number < len(ours) else second, number), one, other)
    if first_sqsh:
        yield Compared(".sqsh", first_sqsh, second_sqsh)
    if record:
        said = record.data["image"]
        yield Compared("recorded image ID", said["config"], second.image.image_id)
        recorded = [each["digest"] for each in said["layers"]]
        for number, (one, other) in enumerate(_padded(recorded, theirs)):
            yield Compared(f"recorded layer {number}", one, other)
        if second_sqsh:
            yield Compared("recorded .sqsh", record.data["squashfs"]["sha256"], second_sqsh)


def _padded(ours: list[str], theirs: list[str]) -> list[tuple[str, str]]:
    length = max(len(ours), len(theirs))
    return list(zip(*([*each, *["absent"] * (length - len(each))] for each in (ours, theirs)),
                    strict=True))


def _name(built: Built, number: int) -> str:
    made = str(built.image.layers[number].history.get("created_by", ""))
    return f"layer {number}, {made.removeprefix('apertus-image: ')}".rstrip(", ")


def _first_difference(first: Built, second: Built) -> tuple[str, Difference | None]:
    for number, (one, other) in enumerate(zip(first.image.layers, second.image.layers,
                                              strict=False)):
        if one.digest != other.digest:
            return _name(first, number), first_difference(
                one, other, first.store.physical, second.store.physical)
    return "", None


def _room(scratch: Path, first: Built, inputs: again.Inputs, store: Store, sqsh: bool) -> None:
    """Room for the inputs, the outputs and, at worst uncompressed, two exports."""
    files = (store.physical(path) for path in inputs.paths)
    layers = sum(layer.size for layer in first.image.layers)
    needed = layers * (3 if sqsh else 1) + sum(
        file.stat().st_size for file in files if file.is_file())
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise UserError("not enough room to build the image again", where=scratch,
                        expected=f"{needed} bytes", got=f"{free} bytes",
                        next_step="make room, or choose another folder with --scratch")
