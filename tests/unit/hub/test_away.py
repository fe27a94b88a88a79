"""No network: what is told of a snapshot that is not, or half, here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub import WeightsSource, fetch
from dflash_deploy.hub.snapshot import from_hub


def test_half_a_snapshot_and_no_network_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client then wants to know what else there is, and may not ask."""
    import huggingface_hub
    from huggingface_hub.errors import OfflineModeIsEnabled

    def refused(*_: Any, **__: Any) -> None:
        raise OfflineModeIsEnabled("offline mode is enabled")

    # the client reads the variable once, when it is imported
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refused)
    with pytest.raises(DownloadError, match="not complete in the local cache") as caught:
        fetch(WeightsSource("some/model", "bf16"))
    assert caught.value.hint == "unset HF_HUB_OFFLINE, then the same command again"


def test_a_hub_that_is_away_is_told_by_the_network_s_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx
    import huggingface_hub
    from huggingface_hub import constants

    def away(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", away)
    with pytest.raises(DownloadError, match="cannot be reached") as caught:
        from_hub(WeightsSource("org/away", ""), lambda _: None, bars=False)
    assert caught.value.detail == "[Errno -2] Name or service not known"
