"""Serve folders as repositories of the Hugging Face hub, on this machine alone.

A program started with the environment of `HubMirror.env` runs unmodified
`load_dataset` and `from_pretrained` calls against the folders

    root/datasets/<owner>/<name>/...    root/models/<owner>/<name>/...

Faults can be ordered beforehand; every request is kept in `log`. Not imitated: git
history (one commit, whose id depends on all contents; any revision is it), large files
on another host, questions by POST.
"""

import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

ROUTE = re.compile(
    r"(/api)?(/(?P<kind>models|datasets))?/(?P<name>[^/]+/[^/]+)"
    r"(/(?P<verb>revision|tree|resolve)/[^/]+(/(?P<path>.*))?)?"
)


class Repository:
    """The files of one folder, read once, and what the hub lists of them."""

    def __init__(self, name: str, folder: Path):
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        self.files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
        self.entries = {}
        for path, data in self.files.items():
            oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # as in git
            entry = {"type": "file", "path": path, "size": len(data), "oid": oid}
            self.entries[path] = entry
            for above in map(str, PurePosixPath(path).parents[:-1]):
                self.entries[above] = {"type": "directory", "path": above, "oid": above}
        listing = json.dumps(self.entries).encode()
        self.commit = hashlib.sha1(listing).hexdigest()
        names = [{"rfilename": path} for path in self.files]
        flags = {"private": False, "gated": False, "disabled": False, "tags": []}
        self.info = {"id": name, "sha": self.commit, "siblings": names, **flags}

    def tree(self, folder: str, recursive: bool) -> list[dict]:
        prefix = f"{folder}/" if folder else ""
        below = [path for path in self.entries if path.startswith(prefix)]
        if not recursive:
            below = [path for path in below if "/" not in path.removeprefix(prefix)]
        return [self.entries[path] for path in below]


class HubMirror:
    """`with HubMirror(root) as hub:` serves the folders below root until the end."""

    def __init__(self, root: Path):
        self.repositories = {}
        for folder in sorted(root.glob("*/*/*")):
            kind, owner, name = folder.relative_to(root).parts
            repository = Repository(f"{owner}/{name}", folder)
            self.repositories[kind, f"{owner}/{name}"] = repository
        self.log: list[str] = []
        self.faults: list[tuple[str, dict]] = []
        handler = type("MirrorHandler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> "HubMirror":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def env(self, hf_home: Path) -> dict[str, str]:
        """What a child process must find in its environment, before its imports."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        local = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        hub = {"HF_ENDPOINT": url, "HF_HOME": str(hf_home), "HF_HUB_OFFLINE": "0"}
        return local | hub

    def fault(self, match: str, **how: int) -> None:
        """Let requests fail whose "METHOD path" contains the pattern `match`.

        status=N · after=N bytes, seconds=S of silence, then the line is cut ·
        corrupt=True: right length, wrong content.
        """
        self.faults.append((match, how))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: HubMirror

    def log_message(self, *args: object) -> None:
        """Stay quiet: the requests are in the mirror's log."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        request = f"{self.command} {path} {self.headers.get('Range', '')}"
        self.hub.log.append(request)
        found = [how for match, how in self.hub.faults if re.search(match, request)]
        self.fault = found[0] if found else {}
        asked = ROUTE.fullmatch(path)
        if "status" in self.fault:
            self._reply(self.fault["status"], b"the mirror was told to fail")
        elif asked is None:
            self._reply(404, b"no such page")
        else:
            self._repository(**asked.groupdict(), query=parse_qs(url.query))

    do_HEAD = do_GET  # noqa: N815

    def _repository(self, kind, name, verb, path, query) -> None:
        repository = self.hub.repositories.get((kind or "models", name))
        if repository is None:
            return self._error(401, "RepoNotFound")  # the hub, too, says 401 here
        if verb == "resolve":
            return self._file(repository, path)
        if verb == "tree":
            recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
            entries = repository.tree(path or "", recursive)
            return self._json(entries) if entries else self._error(404, "EntryNotFound")
        return self._json(repository.info)

    def _file(self, repository: Repository, path: str) -> None:
        headers = {"X-Repo-Commit": repository.commit, "Accept-Ranges": "bytes"}
        if path not in repository.files:
            return self._error(404, "EntryNotFound", headers)
        headers["ETag"] = f'"{repository.entries[path]["oid"]}"'
        data, status = repository.files[path], 200
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, size = int(match[1]), len(data)
            data, status = data[start : int(match[2] or size) + 1], 206
            last = start + len(data) - 1
            headers["Content-Range"] = f"bytes {start}-{last}/{size}"
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
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if "corrupt" in self.fault:
            data = data.translate(bytes(reversed(range(256))))
        try:
            self.wfile.write(data[: self.fault.get("after", len(data))])
        except OSError:
            self.close_connection = True  # the client has gone
        if "after" in self.fault:
            time.sleep(self.fault.get("seconds", 0))
            self.close_connection = True
