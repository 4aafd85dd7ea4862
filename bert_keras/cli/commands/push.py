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
from bert_keras.cli.console import print_line, print_result, print_settings
from bert_keras.cli.options.argument_checks import add_flag, add_option, add_path

if TYPE_CHECKING:
    from bert_keras.export.pushing.pushing import Push, PushPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_path(parser, "folder", "checkpoint folder")
    parser.add_argument("repository", metavar="REPO", help="USER/NAME or ORG/NAME; created if it does not exist")
    add_flag(parser, "--private", "fail unless the repository is new or private")
    add_option(parser, "--revision", str, "branch to write to (default: the main branch)", metavar="BRANCH")
    add_flag(parser, "--create-pr", "open a pull request instead; REPO must exist")
    add_option(parser, "--message", str, "title of the commit", metavar="TEXT")
    add_flag(parser, "--dry-run", "print the files and the model card, and upload nothing")
    group = parser.add_argument_group("artifacts")
    artifacts = "output folder of export: its ONNX and TFLite files too"
    add_option(group, "--artifacts", pathlib.Path, artifacts, metavar="OUT")
    add_flag(group, "--saved-model", "also the newest SavedModel of --artifacts")
    group = parser.add_argument_group("model card")
    add_option(group, "--license", str, "identifier of the license, such as apache-2.0")
    add_option(group, "--base-model", str, "model on the Hub that it was made from (default: as in the card)")
    add_option(group, "--dataset", str, "data set on the Hub that it was trained on; repeatable", action="append")
    add_option(group, "--language", str, "language code, such as en; repeatable", metavar="CODE", action="append")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
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
    _print(arguments, Push(plan) if arguments.dry_run else upload_plan(plan))


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


def _print(arguments: argparse.Namespace, pushed: Push) -> None:
    """Print what was pushed, or with `--dry-run` what would be."""
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
        print_result(lines, {**result, "card": plan.card}, as_json=arguments.json)
        return
    if pushed.kept:
        print_line(f"  kept in the repository, from before: {format_names(pushed.kept, 20)}")
    sentence = f"pushed {format_count(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:,.1f} MB: {pushed.url}"
    print_result(sentence, result, as_json=arguments.json)
