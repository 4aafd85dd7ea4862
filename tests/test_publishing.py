"""Output folders and files are written atomically, and never replace files that bert-keras did not write."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

import bert_keras as bk
from bert_keras import publishing, staging
from bert_keras.errors import InputError, UnpublishedError
from bert_keras.files import read_json
from bert_keras.publishing import (
    check_writable_file,
    check_writable_folder,
    get_companion_folder,
    publish_file,
    publish_folder,
    write_or_keep,
)
from bert_keras.staging import LISTING, lock_folder


class _StoppedError(Exception):
    """Raised in the middle of a block."""


def read_files(folder) -> dict:
    """Return the content of all files of a folder, except the lists of files."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != LISTING)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def raises_unpublished(why):
    return pytest.raises(UnpublishedError, match=rf"{why}.*; the complete folder is .*unpublished\.")


def write(out, content="content", name="file", **options):
    with publish_folder(out, options.pop("written_by", "a test"), **options) as folder:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def test_a_folder_appears_complete_with_its_parents(tmp_path):
    with publish_folder(tmp_path / "a/b/out", "a test") as folder:
        (folder / "deep").mkdir()
        (folder / "deep/file").write_text("content")
        assert not (tmp_path / "a/b/out").exists()
    assert read_files(tmp_path) == {"a/b/out/deep/file": b"content"}
    assert read_json(tmp_path / "a/b/out" / LISTING) == {"written_by": "a test", "files": ["deep/file"]}


def test_a_failed_block_leaves_nothing(tmp_path):
    for out in (tmp_path / "new", tmp_path / "empty"):
        if out.name == "empty":
            out.mkdir()
        with contextlib.suppress(_StoppedError), publish_folder(out, "a test") as folder:
            (folder / "file").write_text("content")
            raise _StoppedError
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty"]


def test_a_folder_with_content_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "out"
    write(out, "old", "old")
    with pytest.raises(bk.InputError, match=r"out exists and is not empty.*overwrite"):
        write(out)
    with contextlib.suppress(_StoppedError), publish_folder(out, "a test", overwrite=True) as folder:
        (folder / "new").write_text("half of it")
        raise _StoppedError
    assert read_files(tmp_path) == {"out/old": b"old"}
    write(out, "new", "new", overwrite=True)
    assert read_files(tmp_path) == {"out/new": b"new"}


@pytest.mark.parametrize(
    ("add", "named"),
    [
        (lambda out: (out / "notes.txt").write_text("mine"), r"notes\.txt"),
        (lambda out: (out / "deep/notes.txt").write_text("mine"), r"deep/notes\.txt"),
        (lambda out: (out / ".git").mkdir(), r"\.git/"),
        (lambda out: (out / "deep/link").symlink_to(out), r"deep/link"),
        (lambda out: [(out / name).touch() for name in "abcde"], r"a, b, c and 2 more"),
    ],
)
def test_a_users_files_in_an_output_folder_are_never_deleted(tmp_path, add, named):
    out = tmp_path / "out"
    write(out, name="deep/file")
    add(out)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(bk.InputError, match=rf"out holds {named}, which a test did not write"):
        write(out, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("listing", [None, "{", "[]", '{"written_by": "a test"}', '{"written_by": 1, "files": 2}'])
def test_a_folder_without_a_list_of_files_is_never_replaced(tmp_path, listing):
    (tmp_path / "file").write_text("mine")
    if listing is not None:
        (tmp_path / LISTING).write_text(listing)
    with pytest.raises(bk.InputError, match=r"holds .*file and no \.bert_keras\.json, so a test did not write it"):
        write(tmp_path, overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"


def test_each_writer_replaces_its_own_folders(tmp_path):
    write(tmp_path / "out", written_by="pretrain")
    with pytest.raises(bk.InputError, match=r"out was written by pretrain, and finetune replaces only what it wrote"):
        write(tmp_path / "out", written_by="finetune", overwrite=True)
    write(tmp_path / "out", "new", written_by="save", overwrite=True, replaces=("pretrain",))
    assert read_files(tmp_path) == {"out/file": b"new"}


@pytest.mark.parametrize("read", ["out", "out/file", "link"])
def test_an_input_folder_is_never_replaced(tmp_path, read):
    write(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out/file")
    with pytest.raises(bk.InputError, match=rf"{read} is an input of this run and would be replaced by .*out"):
        check_writable_folder(tmp_path / "out", "a test", overwrite=True, inputs=[tmp_path / read])


def test_an_empty_folder_is_filled_and_not_replaced(tmp_path, monkeypatch):
    inode = tmp_path.stat().st_ino
    monkeypatch.chdir(tmp_path)
    write(".", name="deep/file")
    assert read_files(tmp_path) == {"deep/file": b"content"}
    assert tmp_path.stat().st_ino == inode
    with pytest.raises(bk.InputError, match=r"is the current folder, or contains it, and has content"):
        write(".", overwrite=True)


def test_a_mount_point_is_filled_and_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "_is_mount_point", lambda folder: folder == tmp_path / "mount")
    (tmp_path / "mount").mkdir()
    write(tmp_path / "mount")
    with pytest.raises(bk.InputError, match=r"mount is a mount point and has content, so it cannot be replaced"):
        write(tmp_path / "mount", "new", overwrite=True)
    assert read_files(tmp_path) == {"mount/file": b"content"}


@pytest.mark.parametrize("place", ["/", "/proc"])
def test_mount_points_are_recognized(place):
    assert publishing._is_mount_point(pathlib.Path(place))
    assert not publishing._is_mount_point(pathlib.Path(__file__).parent)


def test_a_file_at_the_output_path_is_reported(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(bk.InputError, match=r"out is a file"):
        write(tmp_path / "out", overwrite=True)
    with pytest.raises(bk.InputError, match=r"deep cannot be written \(.*Not a directory\)"):
        write(tmp_path / "out/deep")


def test_a_link_is_kept_and_its_target_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "disk/out")  # does not exist yet
    write(tmp_path / "link")
    write(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert read_files(tmp_path / "disk") == {"out/file": b"new"}
    (tmp_path / "file").symlink_to(tmp_path / "disk/single")
    with publish_file(tmp_path / "file") as folder:
        folder.write_text("single")
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "disk/single").read_text() == "single"


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(bk.InputError, match=r"a is a symbolic link that leads back to itself"):
        check_writable_folder(tmp_path / "a", "a test")


def test_an_unwritable_folder_is_reported_before_any_work(tmp_path):
    with pytest.raises(bk.InputError, match=r"File name too long"):
        check_writable_folder(tmp_path / ("n" * 250), "a test")  # its temporary name has 14 characters more
    with pytest.raises(bk.InputError, match=r"/proc/new/out cannot be written"):
        check_writable_folder("/proc/new/out", "a test")
    check_writable_folder(tmp_path / "new/deep/out", "a test")
    assert list(tmp_path.iterdir()) == []


def test_a_complete_folder_that_cannot_be_moved_is_kept(tmp_path):
    raises = raises_unpublished(r"out cannot be written \(.*not empty\)")
    with raises as error, publish_folder(tmp_path / "out", "a test") as folder:
        (folder / "file").write_text("content")
        (tmp_path / "out").mkdir()
        (tmp_path / "out/mine").write_text("mine")  # another process was faster
    [kept] = tmp_path.glob("out.unpublished.*")
    assert str(kept) in str(error.value)
    assert read_files(tmp_path) == {"out/mine": b"mine", f"{kept.name}/file": b"content"}


@pytest.mark.parametrize("num_full", [1, 2, 3])
def test_a_model_that_cannot_be_written_is_written_to_the_first_folder_that_works(num_full, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    out = tmp_path / "disk/out"

    def write_model(folder):
        tried.append(folder)
        if len(tried) <= num_full:
            raise OSError(28, "No space left on device")
        write(folder)

    raises = pytest.raises(InputError, match=r"out cannot be written \(No space left on device\); ")
    with raises as error:
        write_or_keep(out, write_model, if_lost=lambda: "it is lost")
    if num_full == 3:
        assert str(error.value).endswith("; it is lost")
        assert not list(tmp_path.rglob("file"))
    else:
        [kept] = tmp_path.glob(f"{'disk' if num_full == 1 else 'temporary'}/out.unpublished.*")
        assert f"; the trained model is in {kept}: move it" in str(error.value)
        assert (kept / "file").read_text() == "content"


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_file_that_appears_during_the_run_is_kept(tmp_path, is_empty):
    if is_empty:
        (tmp_path / "out").mkdir()
    else:
        write(tmp_path / "out", "old", "old")
    with raises_unpublished("mine"), publish_folder(tmp_path / "out", "a test", overwrite=True) as folder:
        (folder / "file").write_text("content")
        (tmp_path / "out/mine").write_text("mine")
    assert sorted(read_files(tmp_path).values()) == sorted([b"content", b"mine"] + [b"old"] * (not is_empty))


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_every_file_follows_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with publish_folder(tmp_path / "out", "a test") as folder:
            os.close(os.open(folder / "private", os.O_CREAT, 0o600))
            os.close(os.open(folder / "run.sh", os.O_CREAT, 0o700))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "out", *(tmp_path / "out").iterdir()]}
    plain, runs = 0o666 & ~umask, 0o777 & ~umask
    assert modes == {"out": runs, "private": plain, "run.sh": runs, LISTING: plain}


@pytest.mark.parametrize("exchange", [True, False])
def test_an_interrupted_replacement_leaves_the_old_folder_or_the_new_one(tmp_path, monkeypatch, exchange):
    write(tmp_path / "out", "old")
    if not exchange:
        monkeypatch.setattr(staging, "exchange", lambda *_: False)
    rename, calls = os.rename, []

    def interrupted(source, target):
        calls.append(source)
        rename(source, target)
        if len(calls) == 1:
            raise KeyboardInterrupt  # the worst moment: the old folder is moved away and the new one does not exist yet

    monkeypatch.setattr(os, "rename", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        write(tmp_path / "out", "new", overwrite=True)
    monkeypatch.undo()
    assert read_files(tmp_path) == {"out/file": b"new" if exchange else b"old"}


_KILLED = """
    import os, signal, sys
    from bert_keras import publishing, staging
    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    {break_at}
    with publishing.publish_folder(sys.argv[1], "a test", overwrite=True) as folder:
        (folder / "a").write_text("new")
        (folder / "b").write_text("new")
        {in_block}
"""


def kill(out, *, break_at="", in_block="pass"):
    script = textwrap.dedent(_KILLED.format(break_at=break_at, in_block=in_block))
    process = subprocess.run([sys.executable, "-c", script, str(out)], check=False)
    assert process.returncode == -signal.SIGKILL


_BETWEEN_RENAMES = """
    staging.exchange = lambda *_: False
    rename = os.rename
    os.rename = lambda *paths: (rename(*paths), killed())
""".strip().replace("\n    ", "\n    ")


@pytest.mark.parametrize("content_before", ["missing", "empty", "full"])
def test_the_next_run_removes_the_files_of_a_killed_run(tmp_path, content_before):
    out = tmp_path / "out"
    if content_before == "empty":
        out.mkdir()
    elif content_before == "full":
        write(out, "old")
    kill(out, in_block="killed()")
    assert any(path.suffix == ".tmp" for path in tmp_path.rglob("*"))
    write(out, "newer", overwrite=True)
    assert read_files(tmp_path) == {"out/file": b"newer"}
    assert sorted(path.name for path in tmp_path.rglob("*")) == [LISTING, "file", "out"]


def test_a_run_killed_between_two_renames_is_undone_by_the_next(tmp_path):
    write(tmp_path / "out", "old")
    kill(tmp_path / "out", break_at=_BETWEEN_RENAMES)
    assert not (tmp_path / "out").exists()
    check_writable_folder(tmp_path / "out", "a test", overwrite=True)
    assert read_files(tmp_path) == {"out/file": b"old"}


def test_a_run_killed_while_filling_a_folder_is_completed_by_the_next(tmp_path):
    (tmp_path / "out").mkdir()
    kill(tmp_path / "out", break_at=_BETWEEN_RENAMES)
    assert len(read_files(tmp_path / "out")) == 2
    with pytest.raises(bk.InputError, match=r"out exists and is not empty"):
        check_writable_folder(tmp_path / "out", "a test")
    assert read_files(tmp_path / "out") == {"a": b"new", "b": b"new"}
    assert read_json(tmp_path / "out" / LISTING)["files"] == ["a", "b"]


def test_a_user_file_in_the_way_does_not_delete_the_results_of_a_killed_run(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    kill(out, break_at=_BETWEEN_RENAMES)
    [rest] = [name for name in "ab" if not (out / name).exists()]
    (out / rest).write_text("mine")
    with pytest.raises(bk.InputError, match=rf"out cannot be written \(.*{rest} appeared there\)"):
        check_writable_folder(out, "a test")
    assert sorted(read_files(out).values()) == [b"mine", b"new", b"new"]


def test_a_folder_without_its_list_of_files_is_removed_after_a_kill(tmp_path):
    (tmp_path / "out").mkdir()
    kill(tmp_path / "out", in_block="open(folder / publishing.LISTING, 'w').close(); killed()")
    write(tmp_path / "out")
    assert read_files(tmp_path) == {"out/file": b"content"}


def test_an_old_folder_is_removed_only_if_the_new_one_exists(tmp_path):
    write(tmp_path / "out", "old")
    kill(tmp_path / "out", break_at=_BETWEEN_RENAMES)
    (tmp_path / "out").mkdir()  # by another process
    check_writable_folder(tmp_path / "out", "a test")
    assert list(read_files(tmp_path).values()) == [b"old"]


def test_a_preset_name_is_not_an_input_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_writable_folder("base", "plan", inputs=["base"])  # plan base --pictures base


def test_an_unpublished_folder_is_kept_inside_a_mount_point(tmp_path, small_disk):
    with raises_unpublished("appeared there"), publish_folder(small_disk, "a test") as folder:
        (folder / "file").write_text("content")
        (small_disk / "mine").write_text("mine")
    [kept] = small_disk.glob("unpublished.*")
    assert read_files(kept) == {"file": b"content"}


def test_the_temporary_folder_of_a_running_process_is_not_touched(tmp_path):
    with publish_folder(tmp_path / "out", "a test") as first:
        (first / "file").write_text("first")
        write(tmp_path / "out", "second")
        assert (first / "file").read_text() == "first"
        (tmp_path / "out/file").unlink()
        (tmp_path / "out" / LISTING).unlink()
    assert read_files(tmp_path) == {"out/file": b"first"}


def test_a_folder_is_locked_by_one_run_at_a_time(tmp_path):
    refused = pytest.raises(bk.InputError, match=r"another process is using .*out")
    with lock_folder(tmp_path / "out"), refused, lock_folder(tmp_path / "out"):
        pass
    with lock_folder(tmp_path / "out"):
        pass


def test_the_companion_folder_is_next_to_the_output_or_inside_it(tmp_path, monkeypatch):
    assert get_companion_folder(tmp_path / "out", "training") == tmp_path / ".out.training"
    (tmp_path / "link").symlink_to(tmp_path / "disk/out")
    assert get_companion_folder(tmp_path / "link", "training") == tmp_path / "disk/.out.training"
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # root can write everywhere
    state = get_companion_folder(tmp_path / "out", "training")
    assert state == tmp_path / "out/.bert_keras.training"
    state.mkdir()
    write(tmp_path / "out")  # the state is not content
    assert read_files(tmp_path) == {"out/file": b"content"}
    assert state.is_dir()


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    with publish_file(tmp_path / "a/file") as folder:
        folder.write_text("first")
    with contextlib.suppress(_StoppedError), publish_file(tmp_path / "a/file") as folder:
        folder.write_text("second")
        raise _StoppedError
    assert read_files(tmp_path) == {"a/file": b"first"}
    with pytest.raises(bk.InputError, match=r"a is a folder"), publish_file(tmp_path / "a"):
        pass


def test_an_unwritable_file_is_reported_before_any_work(tmp_path):
    check_writable_file(tmp_path / "new/deep/file.txt")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file.txt").write_text("old")
    check_writable_file(tmp_path / "file.txt", overwrite=True)
    with pytest.raises(bk.InputError, match=r"file\.txt exists: name another file"):
        check_writable_file(tmp_path / "file.txt")
    with pytest.raises(bk.InputError, match="is a folder; expected the name of a file"):
        check_writable_file(tmp_path, overwrite=True)
    with pytest.raises(bk.InputError, match=r"deep/new\.txt cannot be written \(.*file\.txt: Not a directory\)"):
        check_writable_file(tmp_path / "file.txt/deep/new.txt")
    with pytest.raises(bk.InputError, match=r"file\.txt is an input of this run and would be replaced"):
        check_writable_file(tmp_path / "file.txt", overwrite=True, inputs=[tmp_path / "file.txt"])


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for out in (pipe, tmp_path / "link", "/dev/null"):
        for overwrite in (False, True):
            with pytest.raises(bk.InputError, match=r"is a device or a pipe; expected the name of a file to write"):
                check_writable_file(out, overwrite=overwrite)
        with pytest.raises(bk.InputError, match=r"is a device or a pipe"), publish_file(out):
            pass
    assert pipe.is_fifo()
