"""Errors of huggingface_hub and of its HTTP library become one sentence, and no message contains a token."""

import errno
import pickle

import pytest

from bert_keras.errors import InputError
from bert_keras.hub.client import find_token, hide_token, one_sentence_errors, open_hub

TOKEN = "hf_" + "aTokenOfTheTests" * 2


def test_a_message_never_contains_the_token():
    with pytest.raises(InputError) as caught, one_sentence_errors("me/model", TOKEN):
        raise RuntimeError(f"Illegal header value b'Bearer {TOKEN}', and Bearer other, and hf_abcdefgh12345")
    message = str(caught.value)
    assert message.startswith("me/model: the Hugging Face Hub reported an error (Illegal header value")
    assert not any(secret in message for secret in (TOKEN, "Bearer other", "hf_abcdefgh12345"))
    assert caught.value.__cause__ is caught.value.__context__ is None  # a traceback would show the request


def test_an_unusual_token_is_hidden_too():
    assert hide_token("the token is x-1.", "x-1") == "the token is ***."


@pytest.mark.parametrize("token", ["hf_with space", "hf_é", "hf_\x7f"])
def test_a_token_that_would_be_quoted_in_an_error_is_refused_without_being_shown(token, monkeypatch):
    hub = open_hub("the test")
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(InputError, match="the token of the Hugging Face Hub contains spaces, line breaks") as caught:
        find_token(hub)
    assert token not in str(caught.value)


def test_our_own_errors_and_interrupts_pass():
    with pytest.raises(InputError, match="ours"), one_sentence_errors("me/model"):
        raise InputError("ours")
    with pytest.raises(KeyboardInterrupt), one_sentence_errors("me/model"):
        raise KeyboardInterrupt


def test_a_full_disk_is_reported_and_not_blamed_on_the_hub():
    with pytest.raises(InputError) as caught, one_sentence_errors("me/model", TOKEN):
        raise RuntimeError("the download failed") from OSError(errno.ENOSPC, "No space left on device")  # has no path
    assert str(caught.value).startswith(
        "me/model: a file in the cache cannot be read or written (No space left on device); expected a readable file, "
        "and free disk space in the cache: correct it, or set HF_HOME to another folder"
    )


def test_a_file_that_cannot_be_read_is_named_without_the_token(tmp_path, monkeypatch):
    hub = open_hub("the test")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(hub.constants, "HF_TOKEN_PATH", str(tmp_path))  # a folder; the tests may run as root
    with pytest.raises(
        InputError, match=rf"^reading the token: {tmp_path} cannot be read or written \(Is a directory\)"
    ):
        find_token(hub)
    with pytest.raises(InputError) as caught, one_sentence_errors("me/model", TOKEN):
        (tmp_path / TOKEN).read_text()
    assert f"{tmp_path}/*** cannot be read or written (No such file or directory)" in str(caught.value)


def test_a_long_message_is_one_short_line():
    with pytest.raises(InputError) as caught, one_sentence_errors("me/model"):
        raise pickle.PickleError("a\nb " * 1000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
