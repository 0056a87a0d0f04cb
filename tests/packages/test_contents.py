"""Packages that lack notices, have another tag, or bring what is not theirs are refused; the installed one is whole."""

from __future__ import annotations

import importlib.metadata
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from . import contents

NAME = "dnnl_graph_ops-1-cp311-cp311-manylinux_2_35_x86_64.whl"
# what the notices of oneDNN call a licence, beside the name that metadata has for it
LICENCES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache License, Version 2.0": "Apache-2.0",
    "Boost Software License - Version 1.0": "BSL-1.0",
    "MIT License": "MIT",
    "Apache License v2.0 with LLVM Exceptions": "Apache-2.0 WITH LLVM-exception",
}


def whole_wheel() -> dict[str, str]:
    metadata = [f"License-Expression: {contents.LICENCE}", *(f"License-File: {name}" for name in contents.NOTICES)]
    return {
        "dnnl_graph_ops/_core.cpython-311-x86_64-linux-gnu.so": "",
        "dnnl_graph_ops/_lib/libdnnl.so.3": "",
        "dnnl_graph_ops-1.dist-info/METADATA": "\n".join(metadata),
        **{f"dnnl_graph_ops-1.dist-info/licenses/{name}": "" for name in contents.NOTICES},
    }


@pytest.fixture
def inspect(tmp_path, monkeypatch, capsys):
    """Returns the complaints about a wheel of the given files, whose symbols allow manylinux_2_35."""
    auditwheel = tmp_path / "auditwheel"
    auditwheel.write_text(f"#!/bin/sh\necho '{json.dumps({'sym_tag': 'manylinux_2_35_x86_64'})}'\n", "utf-8")
    auditwheel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def complaints(files: dict[str, str], name: str = NAME) -> list[str]:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
        monkeypatch.setattr(sys, "argv", ["inspect", str(tmp_path / name)])
        status = contents.main()
        lines = capsys.readouterr().out.splitlines()
        assert status == bool(lines)
        return [line.removeprefix(f"{name}: ") for line in lines]

    return complaints


def test_a_whole_wheel_passes(inspect):
    assert inspect(whole_wheel()) == []


@pytest.mark.parametrize("name", contents.NOTICES)
def test_a_wheel_without_a_notice_is_refused(name, inspect):
    files = whole_wheel()
    del files[f"dnnl_graph_ops-1.dist-info/licenses/{name}"]
    assert inspect(files) == [f"no file {name} among the licences of dist-info"]


def test_metadata_of_the_package_alone_is_refused(inspect):
    files = whole_wheel()
    files["dnnl_graph_ops-1.dist-info/METADATA"] = "License-Expression: Apache-2.0\nLicense-File: LICENSE"
    lines = inspect(files)
    assert "License-Expression is 'Apache-2.0'" in lines[0]
    assert len(lines) == len(contents.NOTICES)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"dnnl_graph_ops.libs/libgomp-24e2ab19.so.1.0.0": ""}, "brings dnnl_graph_ops.libs/libgomp"),
        ({"dnnl_graph_ops/_lib/libdnnl.so.3": None}, "needs the extension and libdnnl"),
    ],
)
def test_other_libraries_are_refused(changes, complaint, inspect):
    files = {name: text for name, text in (whole_wheel() | changes).items() if text is not None}
    (line,) = inspect(files)
    assert complaint in line


def test_a_tag_that_the_symbols_do_not_allow_is_refused(inspect):
    assert inspect(whole_wheel(), NAME.replace("2_35", "2_28")) == ["its symbols allow manylinux_2_35_x86_64"]


@pytest.mark.skipif(not (contents.ROOT / ".git").exists(), reason="git does not track this copy")
def test_an_sdist_holds_files_of_git_alone(tmp_path, monkeypatch):
    listed = "\n".join([*contents.NOTICES, "README.md"])
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 0, stdout=listed)
    )
    sdist = tmp_path / "dnnl_graph_ops-1.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("PKG-INFO", "README.md", "reconstructed_digits.png", *contents.NOTICES[1:]):
            archive.addfile(tarfile.TarInfo(f"dnnl_graph_ops-1/{name}"), io.BytesIO())
    assert list(contents.tracked(sdist)) == [
        "holds reconstructed_digits.png, which git does not track",
        "lacks LICENSE",
    ]


def test_every_licence_of_the_bundled_library_is_named():
    """Each part of oneDNN's sources in its notices is under a licence that the metadata names."""
    text = (contents.ROOT / "licenses" / "oneDNN" / "THIRD-PARTY-PROGRAMS").read_text("utf-8")
    # a part begins with a number, its name, and where it lies: "1. XByak (src/cpu/xbyak/)"
    parts = re.split(r"^\d+\. .*\((?=\w+/)", text, flags=re.M)[1:]
    of_sources = [part for part in parts if part.startswith("src/")]
    assert len(of_sources) >= 6
    named = contents.LICENCE.split(" AND ")
    for part in of_sources:
        licences = {LICENCES[words] for words in LICENCES if words in part}
        assert licences and licences <= set(named), part.partition("\n")[0]


def test_the_installed_package_has_its_notices():
    dist = importlib.metadata.distribution("dnnl-graph-ops")
    metadata = dist.metadata
    (version,) = re.findall(r'^version = "(.+)"$', (contents.ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    if dist.version != version:
        pytest.skip(f"installed is {dist.version}, of other sources than these of {version}")
    assert metadata["License-Expression"] == contents.LICENCE
    assert set(metadata.get_all("License-File")) == set(contents.NOTICES)
    texts = {name: dist.read_text(f"licenses/{name}") for name in contents.NOTICES}
    assert texts == {name: (contents.ROOT / name).read_text("utf-8") for name in contents.NOTICES}
