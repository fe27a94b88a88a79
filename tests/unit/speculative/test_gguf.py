import pytest

from dflash_deploy.errors import DownloadError, UsageError
from dflash_deploy.speculative import gguf


def test_a_folder_that_exists_is_left_alone(tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        gguf.convert(tmp_path / "a.gguf", tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 a zip"])
def test_what_is_no_gguf_is_refused_before_anything_is_written(tmp_path, content):
    source = tmp_path / "a.gguf"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(DownloadError, match=r"a\.gguf"):
        gguf.convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_gguf_leaves_nothing_behind(tmp_path):
    source = tmp_path / "a.gguf"
    source.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(DownloadError, match="could not be converted"):
        gguf.convert(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_the_folder_appears_only_when_it_is_complete(tmp_path, monkeypatch):
    source = tmp_path / "a.gguf"
    source.write_bytes(b"GGUF")

    def write(_source, folder):
        assert folder.parent == tmp_path
        assert not (tmp_path / "out").exists()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(gguf, "_write", write)
    gguf.convert(source, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"a.gguf", "out"}
    assert (tmp_path / "out" / "config.json").exists()


def test_an_interrupted_conversion_leaves_nothing_behind(tmp_path, monkeypatch):
    source = tmp_path / "a.gguf"
    source.write_bytes(b"GGUF")

    def write(_source, folder):
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf, "_write", write)
    with pytest.raises(KeyboardInterrupt):
        gguf.convert(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_main_says_what_is_wrong_and_how_to_call_it(capsys, tmp_path):
    assert gguf.main([]) == 2
    assert "SOURCE.gguf DEST_DIR" in capsys.readouterr().err
    assert gguf.main([str(tmp_path / "a.gguf"), str(tmp_path / "out")]) == 6
