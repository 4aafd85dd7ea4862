"""Errors of huggingface_hub and of its HTTP library become one sentence, and no message contains a token."""

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


def test_a_long_message_is_one_short_line():
    with pytest.raises(InputError) as caught, one_sentence_errors("me/model"):
        raise pickle.PickleError("a\nb " * 1000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
