"""Fetching from a server on this machine: verified, unpacked safely, and clear when it fails."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import CONTENT, fails, left, single

from phmrun.datasets import Dataset, File, Part, Remote, dataset_dir
from phmrun.datasets import fetch as fetch_module
from phmrun.datasets.fetch import fetch
from phmrun.datasets.locations import DROPPED, recorded
from phmrun.files import sha256_of


@pytest.mark.parametrize("how", ["ok", "moved"])
def test_a_file_arrives_verified_and_is_not_fetched_again(server, how):
    dataset = single(server.url(f"{how}/t.en"))
    (path,) = fetch(dataset)
    assert path == dataset_dir(dataset) / "sub/t.en"
    assert path.read_bytes() == CONTENT
    assert left(dataset) == {"t.en"}
    server.asked.clear()
    assert fetch(dataset) == []
    assert server.asked == []


def test_a_broken_connection_is_tried_again(server):
    dataset = single(server.url("cut/t.en"))
    assert fetch(dataset)[0].read_bytes() == CONTENT
    assert server.asked == ["cut", "cut"]


def test_a_wrong_checksum_is_never_put_into_place(server):
    server.files["t.en"] = CONTENT[:-1] + b"!"
    dataset = single(server.url("ok/t.en"))
    message = fails(dataset)
    assert "checksum is not the catalogue" in message
    assert "put these files into" in message
    assert left(dataset) == set()


def test_fetching_from_a_truncating_server_gives_up(server):
    dataset = single(server.url("short/t.en"))
    message = fails(dataset)
    assert "short/t.en" in message
    assert left(dataset) == set()
    assert len(server.asked) == fetch_module.TRIES


def test_mirrors_are_tried_in_order(server):
    bad = {"bad.en": b"bad"}
    server.files |= bad
    dataset = single("http://127.0.0.1:1/t.en", server.url("ok/t.fr"), server.url("ok/bad.en"), server.url("ok/t.en"))
    assert fetch(dataset)[0].read_bytes() == CONTENT
    message = fails(replace(dataset, name="other", splits={"train": (replace(dataset.files[0], sha256="1" * 64),)}))
    assert "refused" in message
    assert "404" in message
    assert message.count("checksum is not the catalogue") == 2


@pytest.mark.parametrize("secure_server", [True], indirect=True)
@pytest.mark.parametrize(("hops", "taken"), [(("s", "s"), True), (("p",), False), (("s", "p"), False), (("f",), False)])
def test_every_hop_of_a_redirect_is_https(server, secure_server, hops, taken):
    """Hops are to the server with TLS itself (s), to the one without (p), or to FTP (f)."""
    onward = {"s": secure_server.url(""), "p": server.url(""), "f": "ftp://127.0.0.1/"}
    names = [f"hop{number}" for number in range(len(hops))]
    after = [*names[1:], "ok"]
    secure_server.moved = {name: f"{onward[hop]}{to}/" for name, hop, to in zip(names, hops, after, strict=True)}
    dataset = single(secure_server.url("hop0/t.en"))
    if taken:
        assert fetch(dataset)[0].read_bytes() == CONTENT
        assert secure_server.asked == [*names, "ok"]
    else:
        assert "redirects from https" in fails(dataset)
        assert left(dataset) == set()
    assert server.asked == []


@pytest.mark.parametrize("secure_server", [False], indirect=True)
def test_certificates_are_verified(secure_server):
    assert "certificate verify failed" in fails(single(secure_server.url("ok/t.en")))
    assert secure_server.asked == []


@pytest.mark.parametrize("options", [{}, {"sha256": None}])
def test_a_file_that_is_here_but_wrong_is_kept_unless_forced(server, options):
    dataset = single(server.url("ok/t.en"), **options)
    (path,) = fetch(dataset)
    path.write_text("mine")
    assert "--force" in fails(dataset)
    assert path.read_text() == "mine"
    broken = single(server.url("ok/absent"), **options)
    assert "404" in fails(broken, force=True)
    assert path.read_text() == "mine"
    fetch(dataset, force=True)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("place", "make"),
    [
        *(("sub/t.en", make) for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("away"))),
        *((place, Path.touch) for place in ("sub", "")),
    ],
)
def test_what_is_in_the_way_is_named_and_stays(server, place, make):
    dataset = single(server.url("ok/t.en"), sha256=None)
    path = dataset_dir(dataset) / place
    path.parent.mkdir(parents=True)
    make(path)
    for force in (False, True):
        message = fails(dataset, force=force)
        assert f"{path}: this " in message
        assert "Remove or rename " in message
    assert os.path.lexists(path)
    assert server.asked == []


def parallel(server, pairs, **changes):
    """A dataset whose sides are put together out of two single files."""
    archives = {}
    for side, role in enumerate(("en", "de")):
        server.files[f"raw.{role}"] = "".join(f"{pair[side]}\n" for pair in pairs).encode()
        archives[f"raw.{role}"] = Remote(f".archives/raw.{role}", (server.url(f"ok/raw.{role}"),))
    splits = {
        split: tuple(
            File(f"{split}.{role}", role=role, parts=(Part(f"raw.{role}", None, "lines", **{key: 3}),))
            for role in ("en", "de")
        )
        for split, key in (("train", "but_every"), ("dev", "every"))
    }
    return replace(Dataset("some", ("nmt",), "s", "l", "parallel", splits=splits, archives=archives), **changes)


def test_a_split_is_put_together_out_of_several_downloads(server):
    pairs = [("one", "eins"), ("two", ""), ("three", "drei"), ("four", "vier")]
    dataset = parallel(server, pairs, sizes={"train": {"pairs": 3}, "dev": {"pairs": 1}})
    paths = fetch(dataset, splits=["train"])
    assert [path.read_text() for path in paths] == ["one\nfour\n", "eins\nvier\n"]
    assert left(dataset) == {"train.en", "train.de", ".checksums.json", ".dropped.json"}
    assert recorded(dataset, DROPPED) == {"train": 1}
    assert len(fetch(dataset)) == 2
    assert fetch(dataset) == []
    (dataset_dir(dataset) / "dev.de").write_text("changed")
    assert "checksum" in fails(dataset)
    assert [path.name for path in fetch(dataset, force=True)] == ["dev.en", "dev.de"]


def test_what_has_no_address_is_brought_by_hand(server):
    archives = {f"raw.{role}": Remote(f".archives/raw.{role}") for role in ("en", "de")}
    dataset = replace(parallel(server, [("a", "b")]), archives=archives, by_hand="Ask its owners.")
    message = fails(dataset)
    assert "no address" in message
    assert "Ask its owners." in message
    for role, text in (("en", "a\n"), ("de", "b\n")):
        path = dataset_dir(dataset) / f".archives/raw.{role}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text * 3)
    published = {name: replace(archive, sha256="1" * 64) for name, archive in archives.items()}
    message = fails(replace(dataset, archives=published))
    assert f"raw.en: its checksum is {sha256_of(path.with_name('raw.en'))} instead of {'1' * 64}" in message
    assert [path.read_text() for path in fetch(dataset, splits=["dev"])] == ["a\n", "b\n"]
    assert server.asked == []


def test_two_processes_do_not_fetch_twice(server):
    dataset = single(server.url("cut/t.en"))
    actual = []
    threads = [threading.Thread(target=lambda: actual.append(fetch(dataset))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, actual)) == [0, 1]
    assert len(server.asked) == 2
