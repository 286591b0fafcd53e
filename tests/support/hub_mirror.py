"""Serve folders as repositories of the Hugging Face hub, on this machine alone.

A program started with the environment of `HubMirror.env` runs unmodified
`load_dataset` and `from_pretrained` calls against the folders

    root/datasets/<owner>/<name>/...    root/models/<owner>/<name>/...

Faults can be ordered beforehand; every request is kept in `log`. Not imitated: git
history (one commit, whose id depends on all contents), uploads, accounts, Xet.
"""

import hashlib
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LARGE_SUFFIXES = (".parquet", ".safetensors", ".bin")
API = re.compile(
    r"/api/(?P<kind>models|datasets)/(?P<name>[^/]+/[^/]+)"
    r"(/(?P<verb>revision|tree|paths-info)/(?P<revision>[^/]+)(/(?P<path>.*))?)?"
)
RESOLVE = re.compile(
    r"/((?P<kind>datasets)/)?(?P<name>[^/]+/[^/]+)/resolve"
    r"/(?P<revision>[^/]+)/(?P<path>.+)"
)
STORAGE = re.compile(r"/storage/(?P<kind>\w+)/(?P<name>[^/]+/[^/]+)/(?P<path>.+)")


@dataclass(frozen=True)
class StoredFile:
    """One file of a repository, with the two ids that the hub gives it."""

    data: bytes
    large: bool

    @property
    def blob_id(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def etag(self) -> str:
        return f'"{self.digest if self.large else self.blob_id}"'


class Repository:
    """The files of one folder, read once."""

    def __init__(self, name: str, folder: Path):
        self.name = name
        self.files = {
            path.relative_to(folder).as_posix(): StoredFile(
                path.read_bytes(), path.suffix in LARGE_SUFFIXES
            )
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        listing = "".join(f"{path} {f.blob_id}\n" for path, f in self.files.items())
        self.commit = hashlib.sha1(listing.encode()).hexdigest()

    def info(self) -> dict:
        names = [{"rfilename": path} for path in self.files]
        flags = {"private": False, "gated": False, "disabled": False, "tags": []}
        return {"id": self.name, "sha": self.commit, "siblings": names, **flags}

    def entry(self, path: str) -> dict | None:
        if path in self.files:
            file = self.files[path]
            size = len(file.data)
            entry = {"type": "file", "path": path, "size": size, "oid": file.blob_id}
            if file.large:
                entry["lfs"] = {"oid": file.digest, "size": size, "pointerSize": 134}
            return entry
        if any(name.startswith(f"{path}/") for name in self.files):
            oid = hashlib.sha1(path.encode()).hexdigest()
            return {"type": "directory", "path": path, "size": 0, "oid": oid}
        return None

    def tree(self, folder: str, recursive: bool) -> list[dict]:
        prefix = f"{folder}/" if folder else ""
        paths = set()
        for name in self.files:
            if name.startswith(prefix):
                steps = name.removeprefix(prefix).split("/")
                depth = len(steps) if recursive else 1
                paths |= {prefix + "/".join(steps[: i + 1]) for i in range(depth)}
        return [self.entry(path) for path in sorted(paths)]


class HubMirror:
    """`with HubMirror(root) as hub:` serves the folders below root until the end."""

    def __init__(self, root: Path):
        self.repositories = {
            (kind, f"{folder.parent.name}/{folder.name}"): Repository(
                f"{folder.parent.name}/{folder.name}", folder
            )
            for kind in ("datasets", "models")
            for folder in sorted(Path(root, kind).glob("*/*"))
        }
        self.log: list[str] = []
        self._faults: list[dict] = []
        self._lock = threading.Lock()
        handler = type("MirrorHandler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "HubMirror":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def env(self, hf_home: Path) -> dict[str, str]:
        """What a child process must find in its environment, before its imports."""
        local = "127.0.0.1,localhost"
        settings = {"HF_ENDPOINT": self.url, "HF_HOME": str(hf_home)}
        return settings | {"NO_PROXY": local, "no_proxy": local, "HF_HUB_OFFLINE": "0"}

    def fault(self, match: str, kind: str, **options: int) -> None:
        """Let requests fail whose "METHOD path" contains the pattern `match`.

        status (code=503) · drop (after=N bytes, then reset) · stall (after=N bytes,
        then silence for seconds=S) · corrupt: right length, wrong content.
        """
        self._faults.append({"match": match, "kind": kind, **options})

    def take_fault(self, request: str) -> dict:
        with self._lock:
            self.log.append(request)
            for fault in self._faults:
                if re.search(fault["match"], request):
                    return fault
        return {"kind": None}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: HubMirror

    def log_message(self, *args: object) -> None:
        """Stay quiet: the requests are in the mirror's log."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = self.hub.take_fault(f"{self.command} {path}")
        if self.fault["kind"] == "status":
            self._reply(self.fault.get("code", 503), b"the mirror was told to fail")
        elif match := STORAGE.fullmatch(path):
            repository = self.hub.repositories[match["kind"], match["name"]]
            self._send_file(repository.files[match["path"]], {})
        elif match := API.fullmatch(path) or RESOLVE.fullmatch(path):
            self._repository(match.groupdict(), parse_qs(url.query))
        else:
            self._reply(404, b"no such page")

    do_HEAD = do_GET  # noqa: N815
    do_POST = do_GET  # noqa: N815

    def _repository(self, asked: dict, query: dict) -> None:
        kind, path = asked["kind"] or "models", asked["path"] or ""
        repository = self.hub.repositories.get((kind, asked["name"]))
        if repository is None:
            return self._error(401, "RepoNotFound")  # the hub, too, says 401 here
        if asked["revision"] not in (None, "main", repository.commit):
            return self._error(404, "RevisionNotFound")
        if "verb" not in asked:
            return self._resolve(kind, repository, path)
        if asked["verb"] == "tree":
            recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
            entries = repository.tree(path, recursive)
            return self._json(entries) if entries else self._error(404, "EntryNotFound")
        if asked["verb"] == "paths-info":
            entries = map(repository.entry, self._asked_paths())
            return self._json([entry for entry in entries if entry])
        return self._json(repository.info())

    def _asked_paths(self) -> list[str]:
        if "json" in self.headers.get("Content-Type", ""):
            return json.loads(self.body)["paths"]
        return parse_qs(self.body.decode()).get("paths", [])

    def _resolve(self, kind: str, repository: Repository, path: str) -> None:
        headers = {"X-Repo-Commit": repository.commit}
        file = repository.files.get(path)
        if file is None:
            return self._error(404, "EntryNotFound", headers)
        if not file.large:
            return self._send_file(file, headers)
        # Large files lie on another host; a client follows a redirect within the
        # hub's own host at once and would miss X-Repo-Commit there.
        here = self.headers.get("Host", "").split(":")[0]
        other = "localhost" if here == "127.0.0.1" else "127.0.0.1"
        place = f"storage/{kind}/{repository.name}/{path}"
        headers["Location"] = f"http://{other}:{self.hub.port}/{place}"
        headers |= {"X-Linked-Etag": file.etag, "X-Linked-Size": len(file.data)}
        return self._reply(302, b"", headers)

    def _send_file(self, file: StoredFile, headers: dict) -> None:
        headers |= {"ETag": file.etag, "Accept-Ranges": "bytes"}
        size, status, data = len(file.data), 200, file.data
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, last = int(match[1]), min(int(match[2] or size), size - 1)
            if start > last:
                return self._reply(416, b"", {"Content-Range": f"bytes */{size}"})
            headers["Content-Range"] = f"bytes {start}-{last}/{size}"
            status, data = 206, data[start : last + 1]
        return self._reply(status, data, headers)

    def _json(self, content: object) -> None:
        headers = {"Content-Type": "application/json"}
        self._reply(200, json.dumps(content).encode(), headers)

    def _error(self, status: int, code: str, headers: dict | None = None) -> None:
        named = {"X-Error-Code": code, "X-Error-Message": code}
        self._reply(status, code.encode(), named | (headers or {}))

    def _reply(self, status: int, data: bytes, headers: dict | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        kind = self.fault["kind"]
        if kind == "corrupt":
            data = data.translate(bytes(reversed(range(256))))
        try:
            if kind not in ("drop", "stall"):
                self.wfile.write(data)
                return
            self.wfile.write(data[: self.fault.get("after", 1000)])
            self.wfile.flush()
            time.sleep(self.fault.get("seconds", 60) if kind == "stall" else 0.1)
            self._reset()
        except OSError:
            self.close_connection = True  # the client has gone

    def _reset(self) -> None:
        """Close so that the client sees "connection reset by peer"."""
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
