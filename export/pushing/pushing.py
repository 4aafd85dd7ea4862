"""`bk.push`: upload a checkpoint folder to the Hugging Face Hub in one commit."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from bert_keras.errors import InputError
from bert_keras.export.pushing.pushed_card import CardOptions, complete_card
from bert_keras.export.pushing.pushed_files import CARD, PushedArtifacts, find_artifact_files, find_checkpoint_files
from bert_keras.files import read_json
from bert_keras.hub.client import open_hub
from bert_keras.hub.names import check_repository, check_revision
from bert_keras.hub.uploading import check_can_upload, upload_files

_METRICS = "metrics.json"
_MAX_CARD_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class PushPlan:
    """What a push uploads.

    Attributes:
        folder: the checkpoint folder.
        repository: "ORG/NAME".
        files: the content or the path of each file, keyed by its path in the repository.
        card: the model card, the content of README.md.
        left_out: files of the checkpoint folder and artifacts that are not uploaded.
    """

    folder: pathlib.Path
    repository: str
    files: dict[str, pathlib.Path | bytes]
    card: str
    left_out: list[str]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        return {name: _get_size(content) for name, content in self.files.items()}


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
    plan = plan_push(folder, repository, options, artifacts=artifacts, with_saved_model=with_saved_model)
    check_target(revision, create_pr=create_pr)
    if dry_run:
        return Push(plan)
    return upload_plan(plan, message=message, private=private, revision=revision, create_pr=create_pr)


def plan_push(
    folder: str | os.PathLike,
    repository: str,
    options: CardOptions,
    *,
    artifacts: str | os.PathLike | None = None,
    with_saved_model: bool = False,
) -> PushPlan:
    """Check everything that is to be pushed, and return it; see `push`."""
    repository = check_repository(repository)
    open_hub("push")  # its YAML parser reads the card
    if with_saved_model and artifacts is None:
        raise InputError("with_saved_model is set without artifacts; expected the output folder of an export: name one")
    found = find_checkpoint_files(folder)
    beside = PushedArtifacts({}, [], [])
    if artifacts is not None:
        beside = find_artifact_files(artifacts, found.checkpoint, with_saved_model=with_saved_model)
    metrics = read_json(found.pushed[_METRICS]) if _METRICS in found.pushed else None
    old = _read_card(found.pushed[CARD]) if CARD in found.pushed else None
    card = complete_card(old, repository, found.checkpoint, options, metrics=metrics, artifacts=beside.names)
    _check_card(card)
    files = {**found.pushed, **beside.files, CARD: card.encode("utf-8")}
    left_out = found.left_out + [f"{artifacts}/{name}" for name in beside.left_out]
    return PushPlan(pathlib.Path(folder), repository, dict(sorted(files.items())), card, left_out)


def upload_plan(
    plan: PushPlan,
    *,
    message: str | None = None,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
) -> Push:
    """Upload what a plan lists, in one commit; the arguments are those of `push`, after `check_target`."""
    uploaded = upload_files(
        plan.repository,
        plan.files,
        message=message or f"Push {plan.folder.absolute().name} with bert-keras",
        private=private,
        revision=revision,
        create_pr=create_pr,
    )
    return Push(plan, uploaded.url, uploaded.commit, uploaded.kept)


def check_target(revision: str | None, *, create_pr: bool) -> None:
    """Raise `InputError` if git does not allow the name of the branch, or a pull request has one."""
    if revision is not None:
        check_revision(revision)
    if create_pr and revision not in (None, "main"):
        raise InputError(f"a pull request goes to the main branch, and the revision is {revision}: leave one out")


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


def _get_size(content: pathlib.Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
