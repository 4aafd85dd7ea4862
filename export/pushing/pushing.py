"""`bk.push`: upload a checkpoint folder to the Hugging Face Hub in one commit."""

import dataclasses
import os
import pathlib
import urllib.parse
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.export.pushing.pushed_card import CardOptions, complete_card
from bert_keras.export.pushing.pushed_files import CARD, PushedFiles, find_artifact_files, find_checkpoint_files
from bert_keras.files import read_json
from bert_keras.hub.client import check_can_upload, one_sentence_errors, open_hub
from bert_keras.hub.names import check_repository, check_revision

_METRICS = "metrics.json"
_MAX_CARD_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class PushTarget:
    """Where a push uploads to; the attributes are arguments of `push`.

    Raises:
        InputError: the Hub does not allow the name of the repository, git does not allow the name of the branch, or a
            pull request has a branch.
    """

    repository: str
    private: bool = False
    revision: str | None = None
    create_pr: bool = False
    message: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "repository", check_repository(self.repository))
        if self.revision is not None:
            check_revision(self.revision)
        if self.create_pr and self.revision not in (None, "main"):
            raise InputError(
                f"a pull request goes to the main branch, and the revision is {self.revision}: leave one out"
            )


@dataclasses.dataclass(frozen=True)
class PushPlan:
    """What a push uploads.

    Attributes:
        folder: the checkpoint folder.
        target: the repository.
        files: the content or the path of each file, keyed by its path in the repository.
        card: the model card, the content of README.md.
        left_out: files of the checkpoint folder and artifacts that are not uploaded.
    """

    folder: pathlib.Path
    target: PushTarget
    files: dict[str, pathlib.Path | bytes]
    card: str
    left_out: list[str]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        return {
            name: len(content) if isinstance(content, bytes) else content.stat().st_size
            for name, content in self.files.items()
        }


@dataclasses.dataclass(frozen=True)
class Push:
    """What `push` did.

    Attributes:
        plan: what was uploaded, or would be.
        url: the page of the repository, of the branch or of the pull request; None: nothing was uploaded.
        commit: the hash of the commit; None: nothing was uploaded.
        kept: files of the repository that were there before and not part of the push, such as artifacts of older
            weights.

    Example:
        >>> bk.push("demo/classifier", "me/topics", dry_run=True).url is None
        True
    """

    plan: PushPlan
    url: str | None = None
    commit: str | None = None
    kept: Sequence[str] = ()


def push(
    folder: str | os.PathLike,
    repository: str,
    *,
    artifacts: str | os.PathLike | None = None,
    with_saved_model: bool = False,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    message: str | None = None,
    license: str | None = None,
    base_model: str | None = None,
    datasets: Sequence[str] = (),
    languages: Sequence[str] = (),
    dry_run: bool = False,
) -> Push:
    """Upload a checkpoint folder to the Hugging Face Hub in one commit, as `bert-keras push` does.

    It needs the extra `hub`, and a token with write access: that of `hf auth login` or HF_TOKEN. Only files of the
    model and those that bert_keras wrote beside it are uploaded. The folder is not changed.

    Args:
        folder: the checkpoint folder.
        repository: "USER/NAME" or "ORG/NAME"; it is created if it does not exist.
        artifacts: an output folder of `export_model`, whose ONNX and TFLite files are uploaded too.
        with_saved_model: whether to upload the newest SavedModel of `artifacts`.
        private: whether the repository must be private.
        revision: the branch to write to. Default: the main branch.
        create_pr: whether to open a pull request instead; the repository must exist.
        message: the title of the commit.
        license: identifier of the model's license, such as "apache-2.0", for the model card.
        base_model: the model on the Hub that it was made from. Default: the one that the card names.
        datasets: the data sets on the Hub that it was trained on.
        languages: codes of its languages, such as "en".
        dry_run: only return what would be uploaded; needs no token and makes no request.

    Returns:
        The address of the repository, the commit, and what was uploaded.

    Raises:
        InputError: nothing was uploaded: the folder, the artifacts or an argument cannot be used, there is no token, or
            the Hub reported an error. The message never contains the token.
        MissingExtraError: huggingface_hub is not installed.

    Example:
        >>> plan = bk.push("demo/classifier", "me/topics", license="apache-2.0", dry_run=True).plan
        >>> plan.sizes["model.safetensors"] > 1e6, plan.card.splitlines()[1]
        (True, 'library_name: transformers')
    """
    if not dry_run:
        check_can_upload("push")
    options = CardOptions(license, base_model, tuple(datasets), tuple(languages))
    target = PushTarget(repository, private, revision, create_pr, message)
    plan = plan_push(folder, target, options, artifacts=artifacts, with_saved_model=with_saved_model)
    return Push(plan) if dry_run else upload_plan(plan)


def plan_push(
    folder: str | os.PathLike,
    target: PushTarget,
    options: CardOptions,
    *,
    artifacts: str | os.PathLike | None = None,
    with_saved_model: bool = False,
) -> PushPlan:
    """Check everything that is to be pushed, and return it; see `push`."""
    open_hub("push")  # its YAML parser reads the card
    if with_saved_model and artifacts is None:
        raise InputError("with_saved_model is set without artifacts; expected the output folder of an export: name one")
    checkpoint, found = find_checkpoint_files(folder)
    beside = PushedFiles({}, [])
    if artifacts is not None:
        beside = find_artifact_files(artifacts, checkpoint, with_saved_model=with_saved_model)
    metrics = read_json(found.files[_METRICS]) if _METRICS in found.files else None
    old = _read_card(found.files[CARD]) if CARD in found.files else None
    card = complete_card(old, target.repository, checkpoint, options, metrics=metrics, artifacts=beside.artifacts)
    _check_card(card)
    files = {**found.files, **beside.files, CARD: card.encode("utf-8")}
    left_out = found.left_out + [f"{artifacts}/{name}" for name in beside.left_out]
    return PushPlan(pathlib.Path(folder), target, dict(sorted(files.items())), card, left_out)


def upload_plan(plan: PushPlan) -> Push:
    """Create the repository of a plan if it does not exist, and upload the files of the plan in one commit.

    Large files are uploaded first, without being visible. If the upload is interrupted, the repository is as before;
    a new repository stays empty.

    Raises:
        InputError: nothing was uploaded: there is no token or it may not write, the repository is public and the target
            is private, or the Hub reported an error.
    """
    target = plan.target
    repository, revision = target.repository, target.revision
    hub, token = check_can_upload("push")
    with one_sentence_errors(repository, token):
        api = hub.HfApi(token=token, library_name="bert-keras")
        if not target.create_pr:  # which is for repositories of others
            api.create_repo(repository, private=target.private or None, exist_ok=True)
        if target.private and not api.model_info(repository).private:
            raise InputError(
                f"{repository} exists and is public, and the upload is to be private; nothing was uploaded: make the "
                "repository private in its settings, or name another one"
            )
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        existing = api.list_repo_files(repository, revision=revision)
        operations = [
            hub.CommitOperationAdd(path, content if isinstance(content, bytes) else str(content.absolute()))
            for path, content in plan.files.items()
        ]
        message = target.message or f"Push {plan.folder.absolute().name} with bert-keras"
        info = api.create_commit(
            repository, operations, commit_message=message, revision=revision, create_pr=target.create_pr or None
        )
    branch = "" if revision is None else f"/tree/{urllib.parse.quote(revision, safe='')}"
    url = getattr(info, "pr_url", None) or f"{hub.constants.ENDPOINT}/{repository}{branch}"
    return Push(plan, url, info.oid, sorted(set(existing) - set(plan.files) - {".gitattributes"}))  # the Hub's own file


def _read_card(path: pathlib.Path) -> str:
    if path.stat().st_size > _MAX_CARD_BYTES:
        raise InputError(f"{path} has more than {_MAX_CARD_BYTES:,} bytes; expected a model card: shorten it")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; expected a model card in UTF-8: save it as UTF-8") from None


def _check_card(card: str) -> None:
    """Raise `InputError` if huggingface_hub cannot read the metadata of a card."""
    try:
        open_hub("push").ModelCard(card)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"README.md has metadata that the Hub cannot read ({reason}): correct it") from None
