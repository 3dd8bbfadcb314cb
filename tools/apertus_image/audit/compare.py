"""OLD against NEW: what both have is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from apertus_image.audit import artefacts, locks, patches, pins
from apertus_image.audit.check import stopping, told
from apertus_image.audit.derivations import Derivation, Plan, evaluate
from apertus_image.audit.predict import (
    built,
    config_changes,
    layer_name,
    predict,
    with_images,
)
from apertus_image.audit.report import MAY, OVERLAY, SAME, Change, LayerChange, Report
from apertus_image.audit.subject import FORMS, Subject, named
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record.stamp import Stamps, cache_folder
from apertus_image.store.store import Store

__all__ = ["Auditor"]


@dataclass(frozen=True)
class Auditor:
    """How two subjects are compared.

    Attributes:
        image: the output of the flake whose layers are foretold.
        programs: gives the folder of the pinned unsquashfs, when it is needed.
        build: gives the image of a revision's folder, built; None to foretell alone.
        images: image JSONs that may be a revision's own, for digests and sizes.
        progress: given a label and a total of bytes, gives what each part is told to.
        say: told each step that has no such total.
    """

    image: str
    store: Store
    programs: Callable[[], Path]
    build: Callable[[Path], Image] | None = None
    images: tuple[Path, ...] = ()
    progress: artefacts.Progress = lambda _label, _total: lambda _bytes: None
    say: Callable[[str], None] = lambda _step: None
    _known: dict[str, Derivation] = field(default_factory=dict)

    def compare(self, old: Subject, new: Subject) -> Report:
        """All that both have.

        Raises:
            UserError: they have nothing in common, or one cannot be read.
        """
        report = Report(old.named, new.named)
        looked = False
        if old.lock and new.lock:
            looked = True
            self._locks(report, old, new)
        if old.project and new.project:
            self._projects(report, old, new)
        if old.record and new.record:
            report.add(_pinned(old.record.data["pins"], new.record.data["pins"]))
        if old.layers is not None and new.layers is not None:
            looked = True
            self._images(report, old, new)
        if old.sqsh and new.sqsh:
            looked = True
            self._squashfs(report, old.sqsh, new.sqsh)
        if not looked:
            raise UserError("these two have nothing that can be compared",
                            where=f"{old.label} ({old.kind}) and {new.label} ({new.kind})",
                            expected=f"two of a kind: {FORMS}")
        return report

    def _locks(self, report: Report, old: Subject, new: Subject) -> None:
        before, after = locks.read(old.lock), locks.read(new.lock)
        found = list(locks.compare(before, after))
        report.add(found)
        tops = {each.name.partition("/")[0] for each in found if each.group == "input"}
        if locks.application(before) == locks.application(after):
            tops.discard(locks.APPLICATION)
        # What is not known to be anything else is taken for a dependency.
        report.least = max((locks.ROLES.get(top, (20, ""))[0] for top in tops), default=0)

    def _projects(self, report: Report, old: Subject, new: Subject) -> None:
        report.add(pins.compare(old.project, new.project))
        report.image = self.image
        report.add(stopping(new.project, self.store))
        fitting = patches.tried(new.project, self.store)
        if {"wheel", "patch"} & {each.group for each in report.changes}:
            report.notes += [f"patches were not tried on {each}, which is not in the store "
                             "(tools/prefetch all)" for each in fitting.unseen]
        report.add(told(each, "patch") for each in fitting.faults)
        if any(each.group == "lock" and each.stop for each in report.changes):
            report.notes.append("no layer is foretold: what would be built is not what is asked "
                                "for")
            return
        try:
            plans = [self._plan(one) for one in (old, new)]
        except UserError as error:  # what was compared so far is told beside it
            report.add([told(error)])
            return
        report.basis = "predicted"
        report.layers = with_images(predict(*plans, self.store), *(
            built(plan, self.store, *self.images) for plan in plans))
        report.layers = _with_application(report.layers, *(
            locks.application(locks.read(one.lock)) for one in (old, new)))
        report.add(config_changes(plans[0].config, plans[1].config))
        if self.build is not None and fitting.faults:
            report.notes.append("nothing was built: the patches could not be applied")
        elif self.build is not None:
            self._prove(report, plans)

    def _plan(self, one: Subject) -> Plan:
        self.say(f"evaluating {self.image} of {one.label}")
        return evaluate(one.project, self.image, self.store, one.label, self._known)

    def _prove(self, report: Report, plans: list[Plan]) -> None:
        """Build both, and compare what was foretold with what came out."""
        images = [self.build(plan.project) for plan in plans]
        found = artefacts.compare_layers(*([named(*each) for each in _layers(image)]
                                           for image in images))
        foretold = {each.name: each for each in report.layers}
        report.basis = "built"
        report.image_ids = tuple(image.image_id for image in images)
        wrong = [each.name for each in found
                 if not _agrees(foretold.get(each.name), each)]
        report.proven = not wrong
        if wrong:
            report.notes.append(f"foretold otherwise than built: {', '.join(wrong)}")
        report.layers = [LayerChange(
            each.name, foretold[each.name].part if each.name in foretold else each.part,
            each.state, foretold[each.name].why if each.name in foretold else "", each.old,
            each.new) for each in found]

    def _images(self, report: Report, old: Subject, new: Subject) -> None:
        report.basis = report.basis or "recorded"
        report.image_ids = old.image_id, new.image_id
        if old.config is not None and new.config is not None:
            shared = old.config.keys() & new.config.keys() if "layout" in (old.kind, new.kind) \
                else {*old.config, *new.config}
            report.add(config_changes(*({key: one.config[key] for key in shared
                                         if key in one.config} for one in (old, new))))
        report.layers = artefacts.compare_layers(old.layers, new.layers)
        if old.source and new.source:
            report.difference = artefacts.first_difference(old.source, new.source, report.layers,
                                                           self.progress)

    def _squashfs(self, report: Report, old: Path, new: Path) -> None:
        stamps = Stamps(cache_folder())
        known = stamps.known(old), stamps.known(new)
        if known[0] and known[0] == known[1]:
            report.notes.append("the same file, by an earlier full check of both")
            return
        if artefacts.same_bytes(old, new, self.progress):
            report.notes.append("the same file, byte for byte")
            return
        report.difference = artefacts.squashfs_difference(old, new, self.programs(),
                                                          self.progress)
        if report.difference is None:
            report.notes.append("other bytes with the same tree and the same content: another "
                                "block size, compressor or mksquashfs")
        report.least = 20


def _with_application(layers: list[LayerChange], old: object, new: object) -> list[LayerChange]:
    """The layers with that of a locked application, which is not evaluated.

    Where there is one it holds the image's identity, so the overlay cannot be foretold.
    """
    if old is None and new is None:
        return layers
    if old == new and all(each.state == SAME for each in layers):
        return [*layers, LayerChange(locks.APPLICATION, OVERLAY, SAME)]
    why = "the locked application's layer holds the identity"
    unsure = [replace(each, state=MAY, why=why) if each.part == OVERLAY else each
              for each in layers]
    return [*unsure, LayerChange(locks.APPLICATION, OVERLAY, MAY, "its input changed"
                                 if old != new else why)]


def _layers(image: Image) -> Iterator[tuple[str, str, int]]:
    for each in image.layers:
        yield layer_name(each.history), each.digest, each.size


def _agrees(foretold: LayerChange | None, found: LayerChange) -> bool:
    """Whether a promise was kept; `may change` promises nothing."""
    if foretold is None:
        return False
    return foretold.state in (MAY, found.state)


def _pinned(old: Mapping, new: Mapping) -> Iterator[Change]:
    """Files of pins by their digests, which is all that a record has of them."""
    before = {"flake.lock": old["flake_lock"], **old["files"]}
    after = {"flake.lock": new["flake_lock"], **new["files"]}
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            kind = "added" if path not in before else "removed" if path not in after else "changed"
            yield Change("record", kind, path, before.get(path, "")[:19], after.get(path, "")[:19])


