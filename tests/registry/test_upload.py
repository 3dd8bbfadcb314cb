"""Uploads: what arrived is never sent again, whatever the registry does."""

from __future__ import annotations

import dataclasses

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.blobs import from_bytes
from apertus_image.registry.client import ATTEMPTS
from fakes import registry as fake
from support.pushing import MIB, REPOSITORY, blob_of

BLOB = blob_of(5 * MIB + 10)


def ranges(registry):
    return [each.headers["Content-Range"] for each in registry.sent("PATCH")]


def data(blob):
    return b"".join(blob.chunks())


def test_chunks_follow_each_other_and_the_digest_closes(bench):
    done = bench.upload(BLOB)
    assert bench.registry.blobs == {BLOB.digest: data(BLOB)}
    assert ranges(bench.registry)[:2] == ["0-1048575", "1048576-2097151"]
    assert [each.size for each in bench.registry.sent("PATCH")] == [MIB] * 5 + [10]
    assert bench.registry.sent("POST")[0].headers["Content-Length"] == "0"
    assert dataclasses.astuple(done) == ("uploaded", BLOB.size, 0, 0)


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_small_blob_is_two_requests(bench, size):
    bench.upload(blob := from_bytes(b"x" * size))
    assert bench.registry.blobs[blob.digest] == b"x" * size
    assert [each.method for each in bench.registry.asked] == ["POST", "PUT"]


@pytest.mark.parametrize("told", ["0-1048575", "1048576-2097151", None, "nonsense"])
def test_a_202_is_believed_whatever_its_range_says(bench, told):  # case 15
    bench.registry.range = lambda _held: told
    assert bench.upload(BLOB).again == 0
    assert len(bench.registry.sent("PATCH")) == 6 and BLOB.digest in bench.registry.blobs


@pytest.mark.parametrize("status", [416, 503])
def test_a_stale_range_does_not_rewind_after_a_fault(bench, status):  # case 15
    bench.registry.range = lambda _held: "0-1048575"
    bench.registry.fault("PATCH", "_state=3", fake.answer(status))
    done = bench.upload(BLOB)
    assert bench.registry.blobs[BLOB.digest] == data(BLOB) and done.again == MIB
    assert all(int(each.split("-")[0]) >= 3 * MIB for each in ranges(bench.registry)[4:])


def test_a_wrong_range_is_told_when_the_digest_fails(bench):  # case 15
    bench.registry.range = lambda _held: "0-1048575"
    bench.registry.fault("PUT", "", fake.answer(400, fake.error("DIGEST_INVALID")), 9)
    with pytest.raises(UserError, match="received other bytes") as error:
        bench.upload(BLOB)
    assert "0-2097151" in error.value.expected and "0-1048575" in error.value.got
    assert len(bench.registry.sent("PUT")) == 2  # begun anew once, no more


def test_a_damaged_transfer_is_begun_anew(bench):
    bench.registry.fault("PUT", "", fake.answer(400, fake.error("DIGEST_INVALID")))
    done = bench.upload(BLOB)
    assert BLOB.digest in bench.registry.blobs and done.again == BLOB.size
    assert any("begins anew" in line for line in bench.said)


@pytest.mark.parametrize("told", ["reply", "status"])
def test_after_416_it_goes_on_behind_what_the_registry_holds(bench, told):  # case 16
    def half(handler, body):
        name = handler.path.split("/")[-1].split("?")[0]
        bench.registry.uploads[name] += body[: MIB // 2]
        bench.registry.steps[name] += 1
        if told == "reply":
            return handler.session(416, REPOSITORY, name)
        bench.registry.strict = False  # the reply without a Location leaves the old one
        return handler.reply(416)

    bench.registry.fault("PATCH", "_state=1", half)
    done = bench.upload(BLOB)
    assert ranges(bench.registry)[1:3] == ["1048576-2097151", "1572864-2097151"]
    assert bench.registry.blobs[BLOB.digest] == data(BLOB) and done.again == MIB // 2
    assert bool(bench.registry.sent("GET")) == (told == "status")


def test_a_registry_that_always_says_416_is_given_up(bench):  # case 16
    bench.registry.fault("PATCH", "", fake.answer(416, Range="0-0"), float("inf"))
    with pytest.raises(UserError, match="HTTP 416"):
        bench.upload(BLOB)
    assert len(bench.registry.sent("PATCH")) < 20


def test_a_registry_that_lost_bytes_is_sent_them_again(bench):
    def forget(handler, _body):
        name = handler.path.split("/")[-1].split("?")[0]
        del bench.registry.uploads[name][MIB // 2 :]
        return False

    bench.registry.fault("PATCH", "_state=3", forget)
    done = bench.upload(BLOB)
    assert bench.registry.blobs[BLOB.digest] == data(BLOB)
    assert done.again == 3 * MIB + MIB // 2 and done.reread == MIB // 2


LOCATIONS = {
    "another each step": lambda url, name, repo, step: (
        f"{url}/v2/{repo}/blobs/uploads/{name}?_state={step}&x=%2Fa%3D&y"),
    "relative to the host": lambda url, name, repo, step: (
        f"/v2/{repo}/blobs/uploads/{name}?_state={step}"),
    "relative to the request": lambda url, name, repo, step: f"../uploads/{name}?_state={step}",
    "a prefix": lambda url, name, repo, step: (
        f"{url}/proxy/v2/{repo}/blobs/uploads/{name}?_state={step}"),
    "no parameters": lambda url, name, repo, step: f"/v2/{repo}/blobs/uploads/{name}",
}


@pytest.mark.parametrize("location", LOCATIONS.values(), ids=LOCATIONS)
def test_the_newest_location_is_used_as_it_is(bench, location):  # case 17
    bench.registry.location = lambda *it: location(bench.registry.url, *it)
    bench.upload(BLOB)
    assert BLOB.digest in bench.registry.blobs
    closing = bench.registry.sent("PUT")[0].url
    assert closing.count("digest=") == 1
    if "x=" in location("", "", "", 1):
        assert "_state=6&x=%2Fa%3D&y&digest=sha256%3A" in closing


def test_another_port_is_followed_without_the_credentials(bench):  # case 17
    bench.login(fake.Login("basic"))
    with fake.serve() as other:
        bench.registry.fault("POST", "", lambda handler, _: False)
        other.uploads["1"], other.steps["1"] = bytearray(), 0
        bench.registry.location = lambda name, repo, step: (
            f"{other.url}/v2/{repo}/blobs/uploads/1?_state=0")
        bench.upload(BLOB)
        assert BLOB.digest in other.blobs
        assert not any("Authorization" in each.headers for each in other.asked)
    assert any("Authorization" in each.headers for each in bench.registry.asked)


@pytest.mark.parametrize("refusal", [
    (416, "application/json", fake.error("SIZE_INVALID")),
    (413, "text/html", "<html><title>413 Request Entity Too Large</title><body>x</body></html>"),
])
def test_chunks_shrink_to_what_is_taken_and_stay_so(bench, refusal):  # case 18
    bench.registry.cap = (4 * MIB, refusal)
    blob = blob_of(40 * MIB)
    bench.upload(blob, chunk=16 * MIB)
    assert bench.registry.blobs[blob.digest] == data(blob)
    assert bench.chunk.size == 4 * MIB
    assert [each.size // MIB for each in bench.registry.sent("PATCH")][:4] == [16, 8, 4, 4]


def test_a_proxy_that_refuses_before_it_reads(bench):  # case 18
    bench.registry.cap, bench.registry.early = (4 * MIB, (413, "text/html", "<h1>413</h1>")), True
    blob = blob_of(40 * MIB)
    bench.upload(blob, chunk=16 * MIB)
    assert bench.registry.blobs[blob.digest] == data(blob) and bench.chunk.size <= 4 * MIB


def test_a_cap_that_nothing_fits_under_is_told(bench):  # case 18
    bench.registry.cap = (1000, (413, "text/html", "<h1>413 Too Large</h1>\n<p>nginx</p>"))
    with pytest.raises(UserError) as error:
        bench.upload(BLOB)
    told = str(error.value)
    assert "HTTP 413: 413 Too Large" in told and "/v2/team/image/blobs/uploads/" in told


def test_a_small_blob_above_the_cap_goes_in_chunks(bench):  # case 18
    bench.registry.cap = (MIB, (413, "text/plain", "no"))
    bench.upload(BLOB, chunk=16 * MIB)
    assert BLOB.digest in bench.registry.blobs


def test_chunks_grow_to_the_minimum(bench):  # case 19
    bench.registry.minimum = 2 * MIB
    bench.registry.fault("PATCH", "_state=2", lambda h, body: setattr(bench.registry, "minimum", 0)
                         or False)
    bench.upload(BLOB, chunk=MIB)
    assert [each.size for each in bench.registry.sent("PATCH")] == [2 * MIB, 2 * MIB, MIB + 10]


def test_an_absurd_minimum_is_refused(bench):  # case 19
    bench.registry.minimum = 1 << 40
    with pytest.raises(UserError, match="larger than can be held"):
        bench.upload(BLOB)


def test_mounting_is_done_at_201_alone(bench):  # case 23
    bench.registry.mounts = True
    bench.registry.blobs[BLOB.digest] = data(BLOB)
    assert bench.upload(BLOB, mount="team/base").what == "mounted"
    assert "from=team/base" in bench.registry.asked[0].url and not bench.registry.body_bytes()


@pytest.mark.parametrize("refusal", [None, 401, 403, 404, 405])
def test_what_is_not_mounted_is_uploaded(bench, refusal):  # case 23
    if refusal:
        bench.registry.fault("POST", "mount=", fake.answer(refusal))
    assert bench.upload(BLOB, mount="team/base").what == "uploaded"
    assert BLOB.digest in bench.registry.blobs
    assert len(bench.registry.sent("POST")) == (2 if refusal else 1)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
def test_busy_registries_are_waited_for(bench, method, status):  # case 25
    bench.registry.fault(method, "", fake.answer(status, Retry_After="2"), 2)
    done = bench.upload(BLOB)
    assert BLOB.digest in bench.registry.blobs
    assert len(bench.waits) == 2 and all(2 <= wait < 4 for wait in bench.waits)
    assert any(str(status) in line for line in bench.said)
    assert done.again == (2 * MIB if method == "PATCH" else 0)


@pytest.mark.parametrize("fault", [fake.hang_up, fake.then_hang_up])
@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_cut_connection_goes_on_where_it_was(bench, method, fault):
    bench.registry.strict = False  # as version 3: asking needs no newest state
    bench.registry.fault(method, "_state=2" if method == "PATCH" else "", fault)
    done = bench.upload(BLOB)
    assert bench.registry.blobs[BLOB.digest] == data(BLOB)
    assert done.again == (MIB if (method, fault) == ("PATCH", fake.hang_up) else 0)
    assert len(bench.registry.sent("POST")) == 1


def test_a_session_that_is_gone_is_begun_anew(bench):
    def lose(handler, _body):
        bench.registry.uploads.clear()
        handler.close_connection = True

    bench.registry.fault("PATCH", "_state=3", lose)
    done = bench.upload(BLOB)
    assert bench.registry.blobs[BLOB.digest] == data(BLOB) and done.again == 4 * MIB
    assert any("begins anew" in line and str(3 * MIB) in line for line in bench.said)


def test_a_line_that_always_breaks_is_given_up(bench):
    bench.registry.fault("PATCH", "", fake.hang_up, float("inf"))
    with pytest.raises(UserError, match="does not answer"):
        bench.upload(BLOB)
    assert len(bench.registry.sent("PATCH")) == ATTEMPTS


def changing(blob):
    """A blob whose bytes have changed since its digest was made."""
    bad = data(blob)[:-1] + b"!"
    return dataclasses.replace(
        blob, chunks=lambda: iter([bad]), changed=lambda found: UserError("changed", got=found))


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_a_changed_blob_is_never_closed(bench, size):  # case 2
    with pytest.raises(UserError, match="changed"):
        bench.upload(changing(blob_of(size)))
    assert not bench.registry.sent("PUT") and not bench.registry.uploads


@pytest.mark.parametrize("cut", [1, -1])
def test_a_blob_of_another_length_is_never_closed(bench, cut):  # case 2
    blob = blob_of(3 * MIB)
    bad = data(blob)[:-1] if cut == -1 else data(blob) + b"x"
    blob = dataclasses.replace(blob, chunks=lambda: iter([bad]),
                               changed=lambda found: UserError("changed", got=found[1]))
    with pytest.raises(UserError, match="changed") as error:
        bench.upload(blob)
    assert error.value.got == blob.size + cut and not bench.registry.sent("PUT")


def test_a_registry_that_loses_everything_again_and_again_is_given_up(bench):
    def forget(handler, _body):
        bench.registry.uploads["1"].clear()
        return False

    bench.registry.strict = False
    bench.registry.fault("PATCH", "_state=[12457]", forget, float("inf"))
    with pytest.raises(UserError, match="HTTP 416"):
        bench.upload(BLOB)
