"""Upload files to a repository of the Hub in one commit."""

import pathlib
import types
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from bert_keras.errors import InputError
from bert_keras.hub.client import one_sentence_errors, open_hub, require_token

_OWN_FILES = (".gitattributes",)  # that the Hub creates


class Upload(NamedTuple):
    """The result of an upload.

    Attributes:
        url: the page of the repository, of the branch or of the pull request.
        commit: the commit's hash.
        kept: files of the repository that were not part of the upload.
    """

    url: str
    commit: str
    kept: list[str]


def check_can_upload(feature: str) -> tuple[types.ModuleType, str]:
    """Check what can be checked without a request: the package, HF_HUB_OFFLINE, and that there is a token.

    Args:
        feature: the feature that uploads, for messages.

    Returns:
        The module huggingface_hub, and the token.

    Raises:
        InputError: nothing can be uploaded.
        MissingExtraError: huggingface_hub is not installed.
    """
    hub = open_hub(feature)
    if hub.constants.HF_HUB_OFFLINE:
        raise InputError(f"HF_HUB_OFFLINE is set, and {feature} needs the Hugging Face Hub: unset it")
    return hub, require_token(hub, feature)


def upload_files(
    repository: str,
    files: Mapping[str, pathlib.Path | bytes],
    *,
    message: str,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
) -> Upload:
    """Create a model repository if it does not exist, and upload files to it in one commit.

    Large files are uploaded first, without being visible. If the upload is interrupted, the repository is as before;
    a new repository stays empty.

    Args:
        repository: "ORG/NAME".
        files: the content or the path of each file, keyed by its path in the repository.
        message: the title of the commit.
        private: whether the repository must be private.
        revision: the branch, which is created from the main branch if it does not exist. Default: the main branch.
        create_pr: whether to open a pull request instead of writing to the branch.

    Returns:
        What was written.

    Raises:
        InputError: nothing was uploaded: there is no token or it may not write, the repository is public and `private`
            is set, or the Hub reported an error.
    """
    hub, token = check_can_upload("push")
    with one_sentence_errors(repository, token):
        api = hub.HfApi(token=token, library_name="bert-keras")
        if not create_pr:  # which is for repositories of others
            api.create_repo(repository, private=private or None, exist_ok=True)
        if private and not api.model_info(repository).private:
            raise InputError(
                f"{repository} exists and is public, and the upload is to be private; nothing was uploaded: make the "
                "repository private in its settings, or name another one"
            )
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        existing = api.list_repo_files(repository, revision=revision)
        operations = [
            hub.CommitOperationAdd(path, content if isinstance(content, bytes) else str(content.absolute()))
            for path, content in files.items()
        ]
        info = api.create_commit(
            repository, operations, commit_message=message, revision=revision, create_pr=create_pr or None
        )
    branch = "" if revision is None else f"/tree/{urllib.parse.quote(revision, safe='')}"
    url = getattr(info, "pr_url", None) or f"{hub.constants.ENDPOINT}/{repository}{branch}"
    return Upload(url, info.oid, sorted(set(existing) - set(files) - {*_OWN_FILES}))
