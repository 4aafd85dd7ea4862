"""A report can be pasted into a public issue."""

import getpass
import socket

import pytest

from bert_keras.doctor.findings import Item, Section, make_cleaner, remove_private


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
        ("'/home/mallory'.", "'~'."),
        ("from /home/mallory.", "from ~."),
        ("/home/mallory.old/model", "/home/mallory.old/model"),
        ("open '/scratch/mallory'", "open '/scratch/USER'"),
        ('open "/scratch/mallory"', 'open "/scratch/USER"'),
        ("[/scratch/mallory]", "[/scratch/USER]"),
        ("from /scratch/mallory.", "from /scratch/USER."),
        ("/srv/mallory.txt", "/srv/mallory.txt"),
        ("run on buildbox7: failed", "run on HOST: failed"),
        ("https://me:pass@example.org/simple", "https://***@example.org/simple"),
        ("https://me:p@ss@example.org/a@b", "https://***@example.org/a@b"),
        ("token abracadabra", "token ***"),
        ("hf_abcdefghijklmnop", "***"),
        ("it is true", "it is true"),
        ("mallory is a word", "mallory is a word"),
    ],
)
def test_private_names_are_replaced(text, expected, clean):
    assert clean(text) == expected


def test_a_host_name_with_a_domain_is_replaced_in_full_and_in_short(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "buildbox7.example.org")
    assert make_cleaner({})("buildbox7.example.org, or buildbox7:") == "HOST, or HOST:"
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost.localdomain")
    assert make_cleaner({})("http://localhost:8501") == "http://localhost:8501"


def test_every_text_of_a_report_is_cleaned():
    private = "/home/mallory/x"
    [section] = remove_private([Section(private, [Item("ok", private, private, private)])], {"HOME": "/home/mallory"})
    assert section == Section("~/x", [Item("ok", "~/x", "~/x", "~/x")])
