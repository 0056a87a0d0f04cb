"""Files of the user's cache: an item is parsed without the others."""

import json

import pytest

from dnnl_graph_ops.runtime import cache_files

CONTENT = {
    "note": 'no "avx2": here',
    "avx512": {"avx2": {"rows": []}},
    "avx2": {"rows": [1, 2]},
    "avx2_vnni": {"rows": ["avx2"]},
}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", CONTENT)
def test_an_item_is_that_of_the_whole_file(name, indent):
    assert cache_files.item(json.dumps(CONTENT, indent=indent), name) == CONTENT[name]


def test_what_lacks_an_item_or_is_damaged():
    text = json.dumps(CONTENT)
    assert cache_files.item(text, "rows") is None
    # nothing behind the item is read
    assert cache_files.item(text[: text.index("avx2_vnni")], "avx2") == CONTENT["avx2"]
    with pytest.raises(ValueError, match="Expecting"):
        cache_files.item(text[: text.index("[1") + 1], "avx2")


def test_a_file_is_small_and_regular(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(CONTENT), "utf-8")
    assert json.loads(cache_files.text(path)) == cache_files.read(path) == CONTENT
    path.write_bytes(b" " * (cache_files.LARGEST_FILE + 1))
    for use in (cache_files.text, cache_files.read):
        with pytest.raises(ValueError, match="more than"):
            use(path)
        with pytest.raises(ValueError, match="no regular file"):
            use(tmp_path)
