"""Against the real docker-registry, with skopeo as the referee."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.layout import Layout
from apertus_image.registry.auth import scope_of
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import referrers
from apertus_image.registry.source import from_image, from_layout
from apertus_image.registry.state import State
from support import images, pushing
from support.distribution import inspect, running, skopeo
from support.pushing import MIB, four_layers


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with running(tmp_path_factory.mktemp("registry")) as it:
        yield it


@pytest.fixture
def image(tmp_path):
    return four_layers(tmp_path)


def send(registry, source, name, **options):
    options.setdefault("chunk", ChunkSize(MIB))
    said = []
    done = push(source, Reference.parse(f"{registry.host}/{name}"), Client(registry.host),
                say=said.append, **options)
    return done, said


@pytest.mark.parametrize("form", ["oci", "v2s2"])
def test_skopeo_reads_it_back_to_the_same_digest(registry, image, tmp_path, form):  # case 26
    done, _ = send(registry, from_image(image), f"read/{form}:1", form=form)
    told = inspect(done.reference)
    assert told["Digest"] == done.reference.digest
    assert told["Layers"] == [each.digest for each in image.layers]
    raw = skopeo("inspect", "--raw", "--tls-verify=false", f"docker://{done.reference}")
    assert raw.encode() == from_image(image).manifest(form).data
    skopeo("copy", "--preserve-digests", "--src-tls-verify=false", f"docker://{done.reference}",
           f"dir:{tmp_path}/back")
    back = (tmp_path / "back/manifest.json").read_bytes()
    assert back == from_image(image).manifest(form).data


@pytest.mark.parametrize(("form", "status"), [("v2s2", 200), ("oci", 404)])
def test_what_enroots_first_question_gets(registry, image, form, status):
    """Why auto takes v2s2 here: the question names no OCI type (notes on Enroot, 0.1)."""
    send(registry, from_image(image), f"enroot/{form}:1", form=form)
    client = Client(registry.host)
    reply = client.send("HEAD", client.url(f"enroot/{form}", "manifests", "1"), "",
                        headers={"Accept": "*/*"}, expect=(200, 404))
    assert reply.status == status


def test_the_same_image_through_skopeo_has_the_same_id(registry, image, tmp_path):
    done, _ = send(registry, from_image(image), "id:1", form="oci")
    skopeo("copy", "--preserve-digests", "--src-tls-verify=false", f"docker://{done.reference}",
           f"oci:{tmp_path}/layout:x")
    again, _ = send(registry, from_layout(Layout(tmp_path / "layout")), "id:2", form="oci")
    assert again.reference == done.reference and again.sent == 0
    assert Layout(tmp_path / "layout").manifest().digest == done.reference.digest


def test_a_second_push_sends_nothing_and_a_patch_little(registry, image, tmp_path):  # case 7
    send(registry, from_image(image), "again:1")
    assert send(registry, from_image(image), "again:1")[0].sent == 0
    changed = pushing.layer(pushing.tree(tmp_path / "patch", {"opt/3/note": "another\n"}))
    done, _ = send(registry, from_image(pushing.image([*image.layers[:3], changed])), "again:1")
    assert 0 < done.sent < MIB and done.moved


def test_layers_are_mounted(registry, image):  # case 23
    send(registry, from_image(image), "mount/base:1")
    done, _ = send(registry, from_image(image), "mount/other:1", mount="mount/base")
    assert done.sent == 0
    assert {each.what for each in done.outcomes.values()} == {"mounted"}
    done, _ = send(registry, from_image(image), "mount/third:1", mount="mount/nothing")
    assert done.sent > 0 and inspect(done.reference)


def test_urls_may_be_relative(image, tmp_path):  # case 17
    with running(tmp_path / "registry", relative=True) as registry:
        done, _ = send(registry, from_image(image), "a:1")
        assert inspect(done.reference)["Digest"] == done.reference.digest


KILLED = """
import os, signal, sys
from pathlib import Path
from apertus_image.registry import state
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.oci.image import Image
from apertus_image.registry.source import from_image
image, target, notes, last = sys.argv[1:]
write = state.Note.write
def until(note, location, offset):
    write(note, location, offset)
    if offset == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
state.Note.write = until
target = Reference.parse(target)
push(from_image(Image.load(Path(image))), target, Client(target.host),
     state=state.State(Path(notes)), chunk=ChunkSize(1 << 20), workers=1)
"""


@pytest.mark.parametrize("restart", [False, True])
def test_a_killed_push_goes_on_between_its_chunks(tmp_path, restart):  # case 12
    tree = pushing.tree(tmp_path / "big", {"data": os.urandom(5 * MIB)})
    image = pushing.image([pushing.layer(tree)])
    (tmp_path / "image.json").write_text(image.json())
    notes = tmp_path / "notes"
    with running(tmp_path / "registry") as registry:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path / "image.json", f"{registry.host}/a:1", notes,
             str(2 * MIB)], env=os.environ | {"PYTHONPATH": ":".join(sys.path)})
        assert killed.returncode == -signal.SIGKILL
        if restart:
            registry.stop()
            registry.start()
        done, said = send(registry, from_image(image), "a:1", state=State(notes))
        layer = next(o for b, o in done.outcomes.items() if b.digest == image.layers[0].digest)
        assert (layer.what, layer.again, layer.reread) == ("resumed", 0, 2 * MIB)
        assert layer.sent == image.layers[0].size - 2 * MIB
        assert any("not sent again" in line for line in said)
        assert inspect(done.reference)["Layers"] == [image.layers[0].digest]
        assert list(notes.iterdir()) == []


def test_a_push_that_is_killed_at_any_time_ends_well(tmp_path):  # case 12
    trees = [pushing.tree(tmp_path / f"t{n}", {f"{n}/data": os.urandom(6 * MIB)}) for n in range(3)]
    image = pushing.image(map(pushing.layer, trees))
    (tmp_path / "image.json").write_text(image.json())
    with running(tmp_path / "registry") as registry:
        command = [images.PROJECT / "tools/push-image", tmp_path / "image.json",
                   f"docker://{registry.host}/a:1", "--chunk", "1"]
        environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "notes")}
        for moment in range(6):
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                process.wait(0.4 + 0.1 * moment)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = inspect(done.stdout.strip())
        assert found["Layers"] == [each.digest for each in image.layers]


def test_a_damaged_file_behind_a_201_is_found(image, tmp_path):
    with running(tmp_path / "registry") as registry:
        send(registry, from_image(image), "damaged:1")
        victim = registry.blob(image.layers[0].digest)
        victim.write_bytes(victim.read_bytes()[:1000])
        with pytest.raises(UserError, match="took a blob and has another") as error:
            send(registry, from_image(image), "damaged:2")
        assert "1000 bytes" in error.value.got
        client = Client(registry.host)
        reply = client.send("GET", client.url("damaged", "tags", "list"), scope_of("damaged"))
        assert reply.json()["tags"] == ["1"]


def test_the_command_prints_the_reference_alone(registry, image, tmp_path):
    (tmp_path / "image.json").write_text(image.json())
    command = [images.PROJECT / "tools/push-image", tmp_path / "image.json",
               f"docker://{registry.host}/command:1"]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    plain = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout == f"{registry.host}/command@{inspect(plain.stdout.strip())['Digest']}\n"
    assert "v2s2" in plain.stderr and "5 blobs" in plain.stderr
    (tmp_path / "record.json").write_text("{}")
    more = ["--json", "--attach", f"application/x-record+json={tmp_path}/record.json"]
    told = json.loads(subprocess.run([*command, *more], env=environment, capture_output=True,
                                     text=True).stdout)
    assert told["bytes_sent"] == 0 and told["reference"] == plain.stdout.strip()
    assert told["manifests"][told["format"]] == told["digest"]
    listed = referrers(Client(registry.host), Reference.parse(told["reference"]))
    assert [f"{registry.host}/command@{each.digest}" for each in listed] == told["attached"]


def test_a_registry_that_is_not_there_is_one_clear_error(tmp_path, image):
    (tmp_path / "image.json").write_text(image.json())
    code = ("import sys; from apertus_image.registry import client; client.ATTEMPTS = 1;"
            "from apertus_image.commands.push_image import main; main()")
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "image.json", "docker://127.0.0.1:1/a:1"],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert "connection refused" in done.stderr and "Traceback" not in done.stderr
