"""Pairs of flake.lock files, one for every kind of change that they can have."""

from __future__ import annotations

import copy
import json

import pytest
from apertus_image.audit.locks import compare, inputs, read
from apertus_image.errors import UserError

A, B = "a" * 40, "b" * 40
HASH, OTHER = f"sha256-{'A' * 43}=", f"sha256-{'B' * 43}="


def node(rev=A, nar=HASH, date=100, owner="o", flake=True, inputs=None, **original):
    found = {"locked": {"type": "github", "owner": owner, "repo": "r", "rev": rev, "narHash": nar,
                        "lastModified": date},
             "original": {"type": "github", "owner": owner, "repo": "r", **original}}
    return found | ({} if flake else {"flake": False}) | ({"inputs": inputs} if inputs else {})


def tarball(url="https://h/x.tar.gz", nar=HASH):
    return {"locked": {"type": "tarball", "url": url, "narHash": nar},
            "original": {"type": "tarball", "url": url}}


def lock(root, version=7, **nodes):
    return {"nodes": {"root": {"inputs": root}, **nodes}, "root": "root", "version": version}


def said(old, new):
    return [(each.kind, each.name, each.stop, " ".join(each.notes))
            for each in compare(old, new)]


def changes(old, new):
    """(kind, path, whether it stops) alone."""
    return [each[:3] for each in said(old, new)]


ONE = lock({"n": "n"}, n=node())
NESTED = lock({"a": "a", "p": "p"}, a=node(inputs={"p": "p_2"}), p=node(), p_2=node(B, OTHER))
FOLLOWING = lock({"a": "a", "p": "p"}, a=node(inputs={"p": ["p"]}), p=node())

# what -> (old, new, what is said)
PAIRS = {
    "the same": (ONE, ONE, []),
    "nodes called otherwise": (NESTED, lock({"a": "x", "p": "p_7"}, x=node(inputs={"p": "p"}),
                                            p_7=node(), p=node(B, OTHER)), []),
    "the same names, each the other's content": (
        lock({"n": "n", "m": "m"}, n=node(), m=node(B, OTHER)),
        lock({"n": "m", "m": "n"}, n=node(), m=node(B, OTHER)),
        [("moved", "m", False), ("moved", "n", False)]),
    "added": (ONE, lock({"n": "n", "m": "m"}, n=node(), m=node()), [("added", "m", False)]),
    "removed": (lock({"n": "n", "m": "m"}, n=node(), m=node()), ONE, [("removed", "m", False)]),
    "another revision": (ONE, lock({"n": "n"}, n=node(B, OTHER, 200)), [("moved", "n", False)]),
    "another hash at one revision": (ONE, lock({"n": "n"}, n=node(nar=OTHER)),
                                     [("hash changed", "n", True)]),
    "another hash at one revision, elsewhere": (
        ONE, lock({"n": "n"}, n=node(nar=OTHER, owner="else")), [("hash changed", "n", True)]),
    "another hash at one URL": (lock({"t": "t"}, t=tarball()),
                                lock({"t": "t"}, t=tarball(nar=OTHER)),
                                [("hash changed", "t", True)]),
    "another URL": (lock({"t": "t"}, t=tarball()),
                    lock({"t": "t"}, t=tarball("https://h/y.tar.gz", OTHER)),
                    [("moved", "t", False)]),
    "another owner": (ONE, lock({"n": "n"}, n=node(owner="else")), [("moved", "n", False)]),
    "another type": (ONE, lock({"n": "n"}, n=tarball()), [("moved", "n", False)]),
    "asked for otherwise": (ONE, lock({"n": "n"}, n=node(ref="main")), [("changed", "n", False)]),
    "the date alone": (ONE, lock({"n": "n"}, n=node(date=10 ** 9)), [("changed", "n", False)]),
    "no flake any more": (ONE, lock({"n": "n"}, n=node(flake=False)), [("changed", "n", False)]),
    "an input's input moved": (
        NESTED, lock({"a": "a", "p": "p"}, a=node(inputs={"p": "p_2"}), p=node(),
                     p_2=node("c" * 40, HASH)), [("moved", "a/p", False)]),
    "an input's input came": (lock({"a": "a"}, a=node()),
                              lock({"a": "a"}, a=node(inputs={"b": "b"}), b=node()),
                              [("added", "a/b", False)]),
    "its own now follows": (NESTED, FOLLOWING, [("changed", "a/p", False)]),
    "what followed is its own now": (FOLLOWING, NESTED, [("changed", "a/p", False)]),
    "it follows another": (
        lock({"a": "a", "p": "p", "q": "q"}, a=node(inputs={"p": ["p"]}), p=node(), q=node(B)),
        lock({"a": "a", "p": "p", "q": "q"}, a=node(inputs={"p": ["q"]}), p=node(), q=node(B)),
        [("changed", "a/p", False)]),
    "what others follow moved, told once": (
        FOLLOWING, lock({"a": "a", "p": "p"}, a=node(inputs={"p": ["p"]}), p=node(B, OTHER)),
        [("moved", "p", False)]),
    "it follows the flake itself": (ONE, lock({"n": []}), [("changed", "n", False)]),
    "one node shared by two, now two of one content": (
        lock({"a": "s", "b": "s"}, s=node()), lock({"a": "s", "b": "t"}, s=node(), t=node()), []),
    "another form of lock": (ONE, lock({"n": "n"}, version=6, n=node()),
                             [("changed", "flake.lock's version", False)]),
}


@pytest.mark.parametrize("what", PAIRS)
def test_what_is_said_of_a_pair(what):
    old, new, wanted = PAIRS[what]
    assert changes(old, new) == wanted


@pytest.mark.parametrize(("old", "new", "note"), [
    (ONE, lock({"n": "n"}, n=node(B, OTHER, 50)), "goes back in time"),
    (ONE, lock({"n": "n"}, n=node(B, HASH, 200)), "the same files"),
    (ONE, lock({"n": "n"}, n=node(nar=OTHER)), f"other files at the same rev {A}"),
    (ONE, lock({"n": "n"}, n=node(owner="else")), "from another place the same files"),
    (NESTED, FOLLOWING, "another content"),
    (FOLLOWING, lock({"a": "a", "p": "p"}, a=node(inputs={"p": "q"}), p=node(), q=node()),
     "the same content"),
])
def test_what_a_reader_must_know_beside_it(old, new, note):
    assert [each[3] for each in said(old, new)] == [note]


def test_forward_in_time_is_not_flagged():
    assert said(ONE, lock({"n": "n"}, n=node(B, OTHER, 200)))[0][3] == ""


def test_what_follows_is_resolved_through_what_follows():
    chained = lock({"a": "a", "b": "b", "p": "p"}, a=node(inputs={"p": ["b", "p"]}),
                   b=node(inputs={"p": ["p"]}), p=node(B))
    found = inputs(chained)
    assert found["a/p"].locked["rev"] == B and found["a/p"].follows == ("b", "p")


@pytest.mark.parametrize(("broken", "says"), [
    (lock({"a": ["b"], "b": ["a"]}), "leads back to it"),
    (lock({"a": ["z"]}), "follows z, which is not there"),
    (lock({"a": "z"}), "no node z"),
    (lock({"a": "a"}, a=node(inputs={"b": "a"})), "an input of itself"),
    (lock({"a": 7}), "neither a node nor a path"),
])
def test_a_broken_graph_is_one_error(broken, says):
    with pytest.raises(UserError, match=says):
        list(compare(ONE, broken))


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"nodes": {}, "root": "r", "version": 7}',
                                  json.dumps(lock({}, version=99))])
def test_what_is_no_lock_is_one_error(text, tmp_path):
    file = tmp_path / "flake.lock"
    file.write_text(text)
    with pytest.raises(UserError):
        read(file)


def test_neither_lock_is_changed():
    old, new = copy.deepcopy(NESTED), copy.deepcopy(FOLLOWING)
    list(compare(old, new))
    assert (old, new) == (NESTED, FOLLOWING)
