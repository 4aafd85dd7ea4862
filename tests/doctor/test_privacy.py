"""A report can be pasted into a public issue."""

import getpass
import socket

import pytest

from bert_keras.doctor.findings import Item, Section
from bert_keras.doctor.privacy import make_cleaner, remove_private


@pytest.fixture
def clean(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "mallory")
    monkeypatch.setattr(socket, "gethostname", lambda: "buildbox7")
    return make_cleaner({"HOME": "/home/mallory", "HF_TOKEN": "abracadabra", "SHORT_TOKEN": "true"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/mallory/model is cut", "~/model is cut"),
        ("in /home/mallory", "in ~"),
        ("/home/mallory2/model", "/home/mallory2/model"),
        ("/scratch/mallory/model: cut", "/scratch/USER/model: cut"),
        ("run on buildbox7: failed", "run on HOST: failed"),
        ("https://me:pass@example.org/simple", "https://***@example.org/simple"),
        ("token abracadabra", "token ***"),
        ("hf_abcdefghijklmnop", "***"),
        ("it is true", "it is true"),
        ("mallory is a word", "mallory is a word"),
    ],
)
def test_private_names_are_replaced(text, expected, clean):
    assert clean(text) == expected


def test_every_text_of_a_report_is_cleaned():
    private = "/home/mallory/x"
    [section] = remove_private([Section(private, [Item("ok", private, private, private)])], {"HOME": "/home/mallory"})
    assert section == Section("~/x", [Item("ok", "~/x", "~/x", "~/x")])
