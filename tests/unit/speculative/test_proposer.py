import pytest
import torch

from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.proposer import Proposer, widths
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, target_model

CPU = torch.device("cpu")


def test_half_a_block_is_offered_on_a_cpu_and_only_there():
    assert widths(8, CPU) == (4, 8)
    assert widths(16, CPU) == (8, 16)
    assert widths(4, CPU) == (4,)
    assert widths(16, torch.device("cuda")) == (16,)


@pytest.fixture(scope="module")
def parts():
    target = DecoderTarget(target_model())
    draft = draft_model(draft_json(block_size=8))
    with torch.inference_mode():
        return draft, Proposer(draft, target, 8)


@pytest.mark.parametrize(
    ("peak", "limit", "count"),
    [
        (0.9, 30, 7),
        (0.5, 30, 3),
        (0.9, 7, 7),
        # too little is left for the whole block: the half that is packed, then what is left
        (0.9, 6, 3),
        (0.9, 3, 3),
        (0.9, 2, 2),
        (0.9, 1, 1),
    ],
)
@torch.inference_mode()
def test_a_sure_draft_is_checked_in_full_and_never_past_the_limit(
    parts, monkeypatch, peak, limit, count
):
    draft, proposer = parts
    propose = draft.propose

    def sure(*arguments):
        proposal = propose(*arguments)
        proposal.peaks.fill_(peak)
        return proposal

    monkeypatch.setattr(draft, "propose", sure)
    state = proposer.open(20)
    proposer.commit(state, torch.randn(5, 64), 5)
    chooser = Chooser(Sampling(9), CPU)
    proposal = proposer.propose(state, 7, limit, chooser)
    assert len(proposal.tokens) == len(proposal.peaks) == count
    assert state.length == 5


@torch.inference_mode()
def test_peaks_are_the_chances_of_the_best_tokens(parts):
    _, proposer = parts
    state = proposer.open(20)
    proposer.commit(state, torch.randn(5, 64), 5)
    greedy = proposer.propose(state, 7, 30, Chooser(Sampling(9), CPU))
    sampled = proposer.propose(state, 7, 30, Chooser(Sampling(9, 1.0, seed=0), CPU))
    assert ((greedy.peaks > 1 / 40) & (greedy.peaks <= 1)).all()
    torch.testing.assert_close(sampled.peaks, greedy.peaks, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sampled.weights.sum(-1), torch.ones(len(sampled.tokens)))
