"""Fetching from a server on this machine: verified, resumed, unpacked safely, and clear when it fails."""

import errno
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests
import urllib3

from phmrun.datasets import Dataset, File, Part, Remote, dataset_dir
from phmrun.datasets import download as download_module
from phmrun.datasets.fetch import fetch
from phmrun.datasets.locations import dropped
from phmrun.errors import ExitCode, PhmrunError

CONTENT = bytes(range(256)) * 2000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; addresses decide how: /ok/, /norange/, /cut/ (breaks off once), /short/ (always), /moved/, …"""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"t.en": CONTENT}
        self.asked = []
        self.broken = set()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    def log_message(self, *arguments):
        """Nothing is printed."""

    def do_GET(self):
        how, name = self.path.strip("/").split("/", 1)
        span = self.headers.get("Range")
        self.server.asked.append((how, span))
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", f"/ok/{name}")
            self.end_headers()
            return
        if how == "loop":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
            return
        if how == "error" or name not in self.server.files:
            self.send_error(503 if how == "error" else 404)
            return
        content = self.server.files[name]
        start = int(span.removeprefix("bytes=").rstrip("-")) if span and how != "norange" else 0
        if start >= len(content) > 0 and start:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if how == "packed":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        breaks = how == "short" or (how == "cut" and name not in self.server.broken)
        self.server.broken.add(name)
        self.wfile.write(content[start : start + max(1, (len(content) - start) // 2) if breaks else None])


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def single(*urls, **changes):
    file = replace(File("sub/t.en", tuple(urls), SHA, len(CONTENT), role="en"), **changes)
    return Dataset("some", ("nmt",), "s", "l", "parallel", splits={"train": (file,)})


def fails(dataset, **options):
    with pytest.raises(PhmrunError) as caught:
        fetch(dataset, pause=0, **options)
    assert caught.value.code is ExitCode.DATA
    return str(caught.value)


def left(dataset):
    return {path.name for path in dataset_dir(dataset).rglob("*") if path.is_file()} - {".fetch.lock"}


def part_of(dataset):
    return dataset_dir(dataset) / "sub/.t.en.part"


@pytest.mark.parametrize("how", ["ok", "moved", "norange", "packed"])
def test_a_file_arrives_verified_and_is_not_fetched_again(server, how):
    dataset = single(server.url(f"{how}/t.en"))
    (path,) = fetch(dataset, pause=0)
    assert path == dataset_dir(dataset) / "sub/t.en"
    assert path.read_bytes() == CONTENT
    assert left(dataset) == {"t.en"}
    server.asked.clear()
    assert fetch(dataset, pause=0) == []
    assert server.asked == []


def test_a_broken_connection_is_resumed_where_it_broke(server):
    dataset = single(server.url("cut/t.en"))
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT
    assert server.asked == [("cut", None), ("cut", f"bytes={len(CONTENT) // 2}-")]


def test_another_process_resumes(server):
    dataset = single(server.url("ok/t.en"))
    part_of(dataset).parent.mkdir(parents=True)
    part_of(dataset).write_bytes(CONTENT[:1000])
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT
    assert server.asked == [("ok", "bytes=1000-")]


@pytest.mark.parametrize("stale", [b"x" * 1000, b"x" * (len(CONTENT) + 5)])
def test_a_part_of_another_version_does_no_harm(server, stale):
    dataset = single(server.url("ok/t.en"))
    part_of(dataset).parent.mkdir(parents=True)
    part_of(dataset).write_bytes(stale)
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(server):
    dataset = single(server.url("norange/t.en"))
    part_of(dataset).parent.mkdir(parents=True)
    part_of(dataset).write_bytes(CONTENT[:1000])
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT


def test_a_wrong_checksum_is_never_put_into_place(server):
    server.files["t.en"] = CONTENT[:-1] + b"!"
    dataset = single(server.url("ok/t.en"))
    message = fails(dataset)
    assert "another checksum" in message
    assert "put these files into" in message.replace("\n", " ")
    assert left(dataset) == set()


def test_a_truncating_server_gives_up_and_keeps_what_came(server):
    dataset = single(server.url("short/t.en"))
    message = fails(dataset)
    assert "short/t.en" in message
    assert left(dataset) == {".t.en.part"}
    assert len(server.asked) == download_module.TRIES


@pytest.mark.parametrize(("how", "tries"), [("absent", 1), ("error", download_module.TRIES)])
def test_what_is_not_there_is_asked_once_what_fails_again(server, how, tries):
    dataset = single(server.url(f"{how}/t.fr" if how == "absent" else f"{how}/t.en"))
    message = fails(dataset)
    assert ("404" if how == "absent" else "503") in message
    assert len(server.asked) == tries
    assert f"{len(CONTENT):,} bytes" in message
    assert str(dataset_dir(dataset)) in message


def test_redirects_that_never_end_are_given_up(server):
    assert "redirects" in fails(single(server.url("loop/t.en")))


def test_half_a_file_is_not_taken_even_where_no_checksum_tells(server):
    dataset = single(server.url("short/t.en"), sha256=None, bytes=None)
    assert "short/t.en" in fails(dataset)
    assert left(dataset) == set()


def test_mirrors_are_tried_in_order(server):
    bad = {"bad.en": b"bad"}
    server.files |= bad
    dataset = single("http://127.0.0.1:1/t.en", server.url("ok/t.fr"), server.url("ok/bad.en"), server.url("ok/t.en"))
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT
    message = fails(replace(dataset, name="other", splits={"train": (replace(dataset.files[0], sha256="1" * 64),)}))
    assert "refused" in message
    assert "404" in message
    assert message.count("another checksum") == 2


class Redirecting(requests.adapters.BaseAdapter):
    """Sends every address on to the next one of a chain, and the last one a file."""

    def __init__(self, *chain):
        super().__init__()
        self.chain, self.asked = list(chain), []

    def send(self, request, **_):
        self.asked.append(request.url)
        response = requests.Response()
        response.url, response.request, response.raw = (
            request.url,
            request,
            urllib3.HTTPResponse(io.BytesIO(CONTENT), preload_content=False),
        )
        place = self.chain.index(request.url)
        last = place == len(self.chain) - 1
        response.status_code = 200 if last else 302
        if not last:
            response.headers["Location"] = self.chain[place + 1]
        return response

    def close(self):
        """Nothing is open."""


@pytest.mark.parametrize(
    ("chain", "taken"),
    [
        (["https://one.org/t.en", "http://two.org/t.en"], False),
        (["https://one.org/t.en", "http://two.org/t.en", "https://three.org/t.en"], False),
        (["https://one.org/t.en", "https://two.org/t.en", "ftp://three.org/t.en"], False),
        (["https://one.org/t.en", "https://two.org/t.en"], True),
    ],
)
def test_every_hop_of_a_redirect_is_https(server, monkeypatch, chain, taken):
    adapter = Redirecting(*chain)
    monkeypatch.setattr(requests.Session, "get_adapter", lambda self, url: adapter)
    dataset = single(chain[0])
    if taken:
        assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT
    else:
        assert "redirects from https" in fails(dataset)
    assert all(url.startswith("https:") for url in adapter.asked)


@pytest.mark.parametrize("sha256", [SHA, None])
def test_no_more_is_taken_than_the_file_has(server, sha256):
    dataset = single(server.url("ok/t.en"), sha256=sha256, bytes=1000)
    assert "sends more than the 1,000 bytes" in fails(dataset)
    assert left(dataset) == set()


def test_certificates_are_verified(server, monkeypatch):
    asked = []

    def get(url, **options):
        asked.append(options)
        raise requests.exceptions.SSLError("certificate verify failed")

    monkeypatch.setattr(requests.Session, "get", lambda self, url, **options: get(url, **options))
    assert "certificate verify failed" in fails(single("https://one.org/t.en"))
    assert len(asked) == 1
    assert asked[0].get("verify", True) is True


def test_a_file_that_is_here_but_wrong_is_kept_unless_forced(server):
    dataset = single(server.url("ok/t.en"))
    path = dataset_dir(dataset) / "sub/t.en"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    assert "--force" in fails(dataset)
    assert path.read_text() == "mine"
    broken = single(server.url("ok/absent"))
    fails(broken, force=True)
    assert path.read_text() == "mine"
    fetch(dataset, force=True, pause=0)
    assert path.read_bytes() == CONTENT


def test_without_a_published_checksum_the_first_download_counts(server):
    dataset = single(server.url("ok/t.en"), sha256=None, bytes=None)
    part_of(dataset).parent.mkdir(parents=True)
    part_of(dataset).write_bytes(b"of another version")
    path = fetch(dataset, pause=0)[0]
    assert path.read_bytes() == CONTENT
    assert left(dataset) == {"t.en", ".checksums.json"}
    path.write_text("changed")
    assert "checksum" in fails(dataset)
    fetch(dataset, force=True, pause=0)
    assert path.read_bytes() == CONTENT


def test_a_full_disk_is_said_and_the_part_is_kept(server, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download_module.os, "fsync", full)
    dataset = single(server.url("ok/t.en"))
    assert "no space left" in fails(dataset)
    assert left(dataset) == {".t.en.part"}


def test_a_directory_that_cannot_be_written_is_said(tmp_path, server, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "file"))
    assert "PHMRUN_DATA" in fails(single(server.url("ok/t.en")))


def packed_tar(mode, *entries, kind=tarfile.SYMTYPE):
    """A tar archive; an entry without content is a link, or of another ``kind``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def packed_zip(*entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            if content is None:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, content or "/etc/passwd")
    return buffer.getvalue()


def archived(server, content, *members, size=None, sha256=SHA):
    server.files["all"] = content
    archive = Remote(".archives/all", (server.url("ok/all"),), hashlib.sha256(content).hexdigest(), len(content))
    files = tuple(
        File(f"t{index}.en", (), sha256, size, role=str(index), parts=(Part("all", member),))
        for index, member in enumerate(members)
    )
    return Dataset("some", ("nmt",), "s", "l", "parallel", splits={"train": files}, archives={"all": archive})


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "zip"])
def test_named_members_are_unpacked_and_the_archive_goes(server, kind, tmp_path):
    entries = [("../../evil", b"x"), ("./data/one", CONTENT), ("data/two", CONTENT), ("data/three", b"y")]
    content = packed_zip(*[(name.removeprefix("./"), data) for name, data in entries])
    if kind != "zip":
        content = packed_tar(kind, *entries)
    dataset = archived(server, content, "data/one", "data/two", size=len(CONTENT))
    paths = fetch(dataset, pause=0)
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    assert left(dataset) == {"t0.en", "t1.en"}
    assert len(server.asked) == 1
    assert not list(Path(tmp_path).rglob("evil"))


@pytest.mark.parametrize(
    ("member", "entries", "message"),
    [
        ("../evil", [("../evil", CONTENT)], "leads out"),
        ("/etc/evil", [("/etc/evil", CONTENT)], "leads out"),
        ("link", [("link", None)], "not a regular file"),
        ("absent", [("one", CONTENT)], "there is no 'absent'"),
        ("large", [("large", CONTENT + b"!")], "more than"),
        ("other", [("other", b"!" * len(CONTENT))], "checksum"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_what_is_unsafe_or_wrong_is_not_unpacked(server, kind, member, entries, message, tmp_path):
    content = packed_zip(*entries) if kind == "zip" else packed_tar("w", *entries)
    dataset = archived(server, content, member, size=len(CONTENT))
    assert message in fails(dataset)
    assert left(dataset) == {"all"}
    assert not list(Path(tmp_path).rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_no_link_device_or_folder_is_unpacked(server, kind):
    dataset = archived(server, packed_tar("w", ("one", None), kind=kind), "one")
    assert "not a regular file" in fails(dataset)
    assert left(dataset) == {"all"}


def test_a_damaged_archive_is_said(server):
    content = packed_tar("w:gz", ("one", bytes(range(256)) * 4000))
    assert "damaged" in fails(archived(server, content[: len(content) // 2], "one"))
    assert "damaged" in fails(replace(archived(server, b"no archive" * 100, "one"), name="other"))
    crc = bytearray(packed_tar("w:gz", ("one", bytes(range(256)) * 4000)))
    crc[-6] ^= 0xFF
    swapped = bytearray(packed_zip(("one", CONTENT)))
    swapped[200] ^= 0xFF
    for number, broken in enumerate((crc, swapped)):
        assert "damaged" in fails(replace(archived(server, bytes(broken), "one"), name=f"crc{number}"))


def test_an_archive_with_a_password_is_said(server):
    content = bytearray(packed_zip(("one", CONTENT)))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "password" in fails(archived(server, bytes(content), "one"))


def test_what_is_no_archive_and_has_no_checksum_is_not_kept(server):
    dataset = archived(server, b"<html>please sign in</html>" * 50, "one", sha256=None)
    dataset = replace(dataset, archives={"all": replace(dataset.archives["all"], sha256=None, bytes=None)})
    assert "damaged" in fails(dataset)
    assert left(dataset) == set()
    server.files["all"] = packed_zip(("one", CONTENT))
    assert fetch(dataset, pause=0)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("assembled", [False, True])
def test_a_disk_that_fills_while_unpacking_is_said_and_the_archive_is_kept(server, monkeypatch, assembled):
    @contextmanager
    def full(path):
        yield path.with_name(f".{path.name}.half")
        raise OSError(errno.ENOSPC, "No space left on device")

    dataset = archived(server, packed_zip(("one", b"text\n")), "one", sha256=None)
    if assembled:
        files = (replace(dataset.files[0], parts=(Part("all", "one", "lines"),)),)
        dataset = replace(dataset, splits={"train": files})
    with monkeypatch.context() as patch:
        patch.setattr("phmrun.datasets.archives.replacing", full)
        patch.setattr("phmrun.datasets.assembly.replacing", full)
        assert "no space left" in fails(dataset)
    assert (dataset_dir(dataset) / ".archives/all").is_file()
    assert fetch(dataset, pause=0)[0].read_bytes() == b"text\n"


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
    paths = fetch(dataset, splits=["train"], pause=0)
    assert [path.read_text() for path in paths] == ["one\nfour\n", "eins\nvier\n"]
    assert left(dataset) == {"train.en", "train.de", ".checksums.json", ".dropped.json"}
    assert dropped(dataset) == {"train": 1}
    assert len(fetch(dataset, pause=0)) == 2
    assert fetch(dataset, pause=0) == []
    (dataset_dir(dataset) / "dev.de").write_text("changed")
    assert "checksum" in fails(dataset)
    assert [path.name for path in fetch(dataset, force=True, pause=0)] == ["dev.en", "dev.de"]


def test_a_split_with_fewer_pairs_than_published_is_refused(server):
    dataset = parallel(server, [("a", "b")] * 30, sizes={"train": {"pairs": 21}})
    assert "20 pairs where there should be 21" in fails(dataset)
    assert left(dataset) == {"raw.en", "raw.de"}


def test_what_has_no_address_is_brought_by_hand(server):
    archives = {f"raw.{role}": Remote(f".archives/raw.{role}") for role in ("en", "de")}
    dataset = replace(parallel(server, [("a", "b")]), archives=archives, by_hand="Ask its owners.")
    message = fails(dataset)
    assert "no address" in message
    assert "Ask its owners." in message
    assert server.asked == []


def test_two_processes_do_not_fetch_twice(server):
    dataset = single(server.url("cut/t.en"))
    found = []
    threads = [threading.Thread(target=lambda: found.append(fetch(dataset, pause=0.2))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, found)) == [0, 1]
    assert len(server.asked) == 2
