"""A stand-in for the Hugging Face Hub on this machine, for the real client of huggingface_hub.

It keeps repositories in memory and answers the requests that creating, committing and downloading need: the JSON API,
uploads of large files (LFS), commits (NDJSON), and files with their ETag. Every request is recorded.
"""

import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

import yaml

TOKEN = "hf_" + "aTokenOfTheTests" * 2  # the only one that may write and read private repositories
_LARGE = (".safetensors", ".onnx", ".tflite", ".png", ".h5", ".bin", ".pb")
_FILE_KEYS = ("file", "lfsFile", "deletedFile")


class Repository:
    """A repository: the files of each branch after each commit.

    Attributes:
        branches: branch name to its list of (commit, files), the newest last; files are bytes keyed by path.
        private: whether only the owner may read it.
        gated: whether files need a token that was accepted.
        messages: the titles of all commits.
        pull_requests: the files of each pull request.
    """

    def __init__(self, files=(), *, private=False, gated=False):
        self.private, self.gated = private, gated
        self.messages, self.pull_requests = [], []
        self.branches = {"main": []}
        self.commit("main", {".gitattributes": b"", **dict(files)}, "initial commit")

    def commit(self, branch: str, files: dict, message: str) -> str:
        text = json.dumps([branch, message, len(self.messages), sorted(files)])
        oid = hashlib.sha1(text.encode()).hexdigest()
        self.branches[branch].append((oid, files))
        self.messages.append(message)
        return oid

    def find(self, revision: str) -> tuple[str, dict] | None:
        """Return the commit and the files of a branch or commit."""
        if revision in self.branches:
            return self.branches[revision][-1]
        commits = (commit for branch in self.branches.values() for commit in branch)
        return next((commit for commit in commits if commit[0] == revision), None)

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the main branch, without that of the Hub."""
        return {name: content for name, content in self.branches["main"][-1][1].items() if name != ".gitattributes"}


class HubServer:
    """The server; use it as a context manager.

    Attributes:
        repositories: "ORG/NAME" to `Repository`.
        requests: (method, path, authorization) of each request.
        user_agents: how the clients named themselves.
        cards: the content of each README.md that was validated.
        fail: (method, part of a path, status) of requests to fail.
    """

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.requests, self.user_agents, self.cards, self.objects, self.fail = [], set(), [], {}, []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def environment(self, home, *, token: str | None = TOKEN) -> dict[str, str]:
        """The environment variables of a client, whose cache and login are in the folder `home`."""
        values = {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
        return {**values, "HF_TOKEN": token or "", "NO_PROXY": "127.0.0.1", "TF_CPP_MIN_LOG_LEVEL": "3"}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def log_message(self, *_):
        """Print nothing."""

    def do_GET(self):
        self._answer("GET")

    def do_HEAD(self):
        self._answer("HEAD")

    def do_POST(self):
        self._answer("POST")

    def do_PUT(self):
        self._answer("PUT")

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urllib.parse.urlsplit(self.path)
        path, self.query = url.path, dict(urllib.parse.parse_qsl(url.query))
        self.hub.requests.append((method, path, self.headers.get("Authorization")))
        self.hub.user_agents.add(self.headers.get("User-Agent"))
        for kind, part, status in self.hub.fail:
            if kind == method and part in path:
                return self._send(status, {"error": "the stand-in was told to fail"})
        for kind, pattern, answer in _ROUTES:
            if (match := re.fullmatch(pattern, path)) and method in kind:
                return answer(self, body, *map(urllib.parse.unquote, match.groups()))
        return self._send(404, {"error": f"no such address: {method} {path}"})

    def _send(self, status: int, content: object = None, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _may_write(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _find(self, name: str) -> Repository | None:
        """Return a repository that the client may see; otherwise send the Hub's error."""
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self._may_write):
            self._send(404 if self._may_write else 401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return None
        return repository

    def _find_files(self, name: str, revision: str) -> tuple[str, dict] | None:
        repository = self._find(name)
        found = repository and repository.find(revision)
        if repository is not None and found is None:
            self._send(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        return found

    def create(self, body):
        values = json.loads(body)
        name = f"{values['organization']}/{values['name']}"
        if not self._may_write:
            return self._send(401, {"error": "Invalid username or password."})
        if not name.startswith("me/"):
            return self._send(403, {"error": "You don't have the rights to create a model under this namespace"})
        if name in self.hub.repositories:
            return self._send(409, {"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"})
        self.hub.repositories[name] = Repository(private=values.get("visibility") == "private")
        return self._send(200, {"url": f"{self.hub.url}/{name}"})

    def info(self, body, name, revision="main"):
        if found := self._find_files(name, revision):
            commit, files = found
            siblings = [{"rfilename": path, "size": len(content)} for path, content in sorted(files.items())]
            private = self.hub.repositories[name].private
            self._send(200, {"id": name, "modelId": name, "sha": commit, "private": private, "siblings": siblings})

    def tree(self, body, name, revision):
        if found := self._find_files(name, revision):
            self._send(200, [_describe(path, content) for path, content in sorted(found[1].items())])

    def validate(self, body):
        content = json.loads(body)["content"]
        self.hub.cards.append(content)
        metadata = yaml.safe_load(content.split("---")[1])
        errors = [] if isinstance(metadata.get("license", ""), str) else [{"message": '"license" must be a string'}]
        self._send(400 if errors else 200, {"errors": errors, "warnings": []})

    def preupload(self, body, name, revision):
        if found := self._find_files(name, revision):
            files = json.loads(body)["files"]
            modes = ["lfs" if file["path"].endswith(_LARGE) else "regular" for file in files]
            oids = [_compute_oid(found[1].get(file["path"]), mode) for file, mode in zip(files, modes, strict=True)]
            answers = [
                {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}
                for file, mode, oid in zip(files, modes, oids, strict=True)
            ]
            self._send(200, {"files": answers})

    def batch(self, body, name):
        if self._find(name):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.hub.url}/objects/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            self._send(200, {"transfer": "basic", "objects": objects}, Content_Type="application/vnd.git-lfs+json")

    def store(self, body, oid):
        if hashlib.sha256(body).hexdigest() != oid:
            return self._send(400, {"error": "wrong content"})
        self.hub.objects[oid] = body
        return self._send(200, b"")

    def branch(self, body, name, branch):
        if not self._may_write:
            return self._send(403, {"error": "Forbidden"})
        if repository := self._find(name):
            if branch in repository.branches:
                return self._send(409, {"error": "Reference already exists"})
            repository.branches[branch] = list(repository.branches["main"])
            return self._send(200, {})
        return None

    def commit(self, body, name, revision):
        if not self._may_write:
            return self._send(403, {"error": "Forbidden"})
        repository, lines = self._find(name), [json.loads(line) for line in body.splitlines()]
        files = dict(repository.find(revision)[1])
        for line in (line for line in lines if line["key"] in _FILE_KEYS):
            value = line["value"]
            if line["key"] == "deletedFile":
                del files[value["path"]]
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            else:
                files[value["path"]] = base64.b64decode(value["content"])
        message = lines[0]["value"]["summary"]
        if self.query.get("create_pr"):
            repository.pull_requests.append(files)
            number = len(repository.pull_requests)
            url = f"{self.hub.url}/{name}/discussions/{number}"
            commit = f"{self.hub.url}/{name}/commit/{'0' * 40}"
            return self._send(200, {"commitUrl": commit, "commitOid": "0" * 40, "pullRequestUrl": url})
        oid = repository.commit(revision, files, message)
        return self._send(200, {"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid})

    def resolve(self, body, name, revision, path):
        if found := self._find_files(name, revision):
            commit, files = found
            if self.hub.repositories[name].gated:
                return self._send(403, {"error": "gated"}, X_Error_Code="GatedRepo", X_Repo_Commit=commit)
            if path not in files:
                return self._send(404, {"error": "no file"}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            return self._send(200, files[path], ETag=f'"{_compute_oid(files[path])}"', X_Repo_Commit=commit)
        return None


def _compute_oid(content: bytes | None, mode: str = "regular") -> str | None:
    """Return the hash of a file as in git, or SHA-256 for a large one."""
    if content is None:
        return None
    if mode == "lfs":
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _describe(path: str, content: bytes) -> dict:
    return {"type": "file", "path": path, "size": len(content), "oid": _compute_oid(content)}


_NAME = "([^/]+/[^/]+)"
_ROUTES = (
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("GET", f"/api/models/{_NAME}", _Handler.info),
    ("GET", f"/api/models/{_NAME}/revision/([^/]+)", _Handler.info),
    ("GET", f"/api/models/{_NAME}/tree/([^/]+)", _Handler.tree),
    ("POST", f"/api/models/{_NAME}/preupload/([^/]+)", _Handler.preupload),
    ("POST", f"/api/models/{_NAME}/branch/([^/]+)", _Handler.branch),
    ("POST", f"/api/models/{_NAME}/commit/([^/]+)", _Handler.commit),
    ("POST", f"/{_NAME}\\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", "/objects/([0-9a-f]+)", _Handler.store),
    ("GET HEAD", f"/{_NAME}/resolve/([^/]+)/(.+)", _Handler.resolve),
)
