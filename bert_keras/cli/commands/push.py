"""Push a checkpoint folder to the Hugging Face Hub, in one commit.

    bert-keras push my/classifier me/reviews --license apache-2.0 --language en --dry-run
    bert-keras push my/classifier me/reviews --license apache-2.0 --language en --artifacts my/artifacts

It needs a token with write access: that of `hf auth login`, or the environment variable HF_TOKEN. Only files of the
model and those that bert-keras wrote next to it are uploaded; the others are listed. --dry-run prints the files and the
model card, and needs no token.
"""

from __future__ import annotations

import argparse
import pathlib
from typing import TYPE_CHECKING

from bert_keras.checks import format_count, format_names
from bert_keras.cli.console import Result, print_line, print_settings
from bert_keras.cli.options.declaring import Options

if TYPE_CHECKING:
    from bert_keras.export.pushing.pushing import Push, PushPlan


def add_arguments(options: Options) -> None:
    """Declare the arguments of the command."""
    options.add_path("folder", "checkpoint folder")
    options.add_argument("repository", metavar="REPO", help="USER/NAME or ORG/NAME; created if it does not exist")
    options.add_flag("--private", "fail unless the repository is new or private")
    options.add_option("--revision", str, "branch to write to (default: the main branch)", metavar="BRANCH")
    options.add_flag("--create-pr", "open a pull request instead; REPO must exist")
    options.add_option("--message", str, "title of the commit", metavar="TEXT")
    options.add_flag("--dry-run", "print the files and the model card, and upload nothing")
    group = options.add_group("artifacts")
    artifacts = "output folder of export: its ONNX and TFLite files too"
    group.add_option("--artifacts", pathlib.Path, artifacts, metavar="OUT")
    group.add_flag("--saved-model", "also the newest SavedModel of --artifacts")
    group = options.add_group("model card")
    group.add_option("--license", str, "identifier of the license, such as apache-2.0")
    group.add_option("--base-model", str, "model on the Hub that it was made from (default: as in the card)")
    group.add_option("--dataset", str, "data set on the Hub that it was trained on; repeatable", action="append")
    group.add_option("--language", str, "language code, such as en; repeatable", metavar="CODE", action="append")


def run(arguments: argparse.Namespace) -> Result:
    """Run the command, and return its result to print."""
    from bert_keras.export.pushing.pushed_card import CardOptions
    from bert_keras.export.pushing.pushing import Push, PushTarget, plan_push, upload_plan
    from bert_keras.hub.client import check_can_upload

    if not arguments.dry_run:
        check_can_upload("push")
    card = CardOptions(arguments.license, arguments.base_model, arguments.dataset or [], arguments.language or [])
    contents = {"artifacts": arguments.artifacts, "with_saved_model": arguments.saved_model}
    target = {name: getattr(arguments, name) for name in ("private", "revision", "create_pr", "message")}
    plan = plan_push(arguments.folder, PushTarget(arguments.repository, **target), card, **contents)
    print_settings("push", _describe_settings(arguments, plan))
    return _describe_pushed(Push(plan) if arguments.dry_run else upload_plan(plan))


def _describe_settings(arguments: argparse.Namespace, plan: PushPlan) -> dict[str, object]:
    sizes = plan.sizes
    shown = {"folder": arguments.folder, "repository": plan.target.repository}
    if arguments.artifacts:
        shown["artifacts"] = arguments.artifacts
    target = "a pull request" if arguments.create_pr else f"the branch {arguments.revision or 'main'}"
    return {
        **shown,
        "to": target + (", private" if arguments.private else ""),
        "files": f"{len(sizes):,}, {sum(sizes.values()) / 1e6:,.1f} MB",
        "left out": format_names(plan.left_out, 20) if plan.left_out else "nothing",
    }


def _describe_pushed(pushed: Push) -> Result:
    """Return what was pushed, or with `--dry-run` what would be."""
    plan, sizes = pushed.plan, pushed.plan.sizes
    result = {
        "repository": plan.target.repository,
        "url": pushed.url,
        "commit": pushed.commit,
        "files": sizes,
        "left_out": plan.left_out,
        "kept": list(pushed.kept),
    }
    if pushed.url is None:
        lines = [f"{size:>14,}  {name}" for name, size in sizes.items()]
        lines = ["    size/bytes  file", *lines, "", *plan.card.rstrip().split("\n"), ""]
        lines.append("nothing was uploaded, because of --dry-run")
        return lines, {**result, "card": plan.card}
    if pushed.kept:
        print_line(f"  kept in the repository, from before: {format_names(pushed.kept, 20)}")
    sentence = f"pushed {format_count(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:,.1f} MB: {pushed.url}"
    return sentence, result
