import pytest
import torch

from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.pace import Steady
from dflash_deploy.speculative.proposer import WAITING_AT_MOST, Proposer, widths
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
def proposer():
    with torch.inference_mode():
        draft = draft_model(draft_json(block_size=8))
        return Proposer(draft, DecoderTarget(target_model()), 8)


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
    proposer, monkeypatch, peak, limit, count
):
    propose = proposer.draft.propose

    def sure(*arguments):
        proposal = propose(*arguments)
        proposal.peaks.fill_(peak)
        return proposal

    monkeypatch.setattr(proposer.draft, "propose", sure)
    state = proposer.open(20)
    proposer.commit(state, torch.randn(5, 64), 5)
    chooser = Chooser(Sampling(9), CPU)
    proposal = proposer.propose(state, 7, limit, chooser, Steady())
    assert len(proposal.tokens) == len(proposal.peaks) == count
    assert state.cache.length == 5


@torch.inference_mode()
def test_peaks_are_the_chances_of_the_best_tokens(proposer):
    state = proposer.open(20)
    proposer.commit(state, torch.randn(5, 64), 5)
    greedy = proposer.propose(state, 7, 30, Chooser(Sampling(9), CPU), Steady())
    sampled = proposer.propose(state, 7, 30, Chooser(Sampling(9, 1.0, seed=0), CPU), Steady())
    assert ((greedy.peaks > 1 / 40) & (greedy.peaks <= 1)).all()
    torch.testing.assert_close(sampled.peaks, greedy.peaks, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sampled.weights.sum(-1), torch.ones(len(sampled.tokens)))


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.inference_mode()
def test_the_callers_draft_stays_as_it_was(second, dtype):
    draft = draft_model(draft_json(second=second)).to(dtype)
    torch.manual_seed(0)
    features, block = torch.randn(9, 64, dtype=dtype), torch.randn(4, 32, dtype=dtype)

    def hidden():
        cache = draft.open(16)
        draft.add_context(cache, features)
        cache.length = 9
        return draft(block, cache)

    before = hidden()
    proposer = Proposer(draft, DecoderTarget(target_model()), 4)
    state = proposer.open(20)
    proposer.commit(state, torch.randn(5, 64), 5)
    proposer.propose(state, 7, 3, Chooser(Sampling(9), CPU), Steady())
    assert draft.dtype == dtype
    assert torch.equal(hidden(), before)
    assert not draft.fc.packed


def test_weights_that_need_no_cast_are_shared():
    draft = draft_model()
    joined = draft.joined(CPU, torch.float32)
    for (name, ours), theirs in zip(joined.named_buffers(), draft.buffers(), strict=True):
        assert ours.data_ptr() == theirs.data_ptr(), name


@pytest.mark.parametrize("rows", [3, WAITING_AT_MOST + 3])
@torch.inference_mode()
def test_context_that_waited_is_the_same_context(proposer, rows):
    torch.manual_seed(0)
    features = torch.randn(5 + rows, 64)
    at_once, waited = proposer.open(100), proposer.open(100)
    proposer.commit(at_once, features, 5 + rows)
    proposer.commit(waited, features[:5], 5)
    for row in features[5:]:
        proposer.keep(waited, row[None])
    assert len(waited.waiting) == 3  # a long wait is cut short
    proposals = [
        proposer.propose(state, 7, 30, Chooser(Sampling(9), CPU), Steady())
        for state in (at_once, waited)
    ]
    assert waited.cache.length == at_once.cache.length == 5 + rows
    torch.testing.assert_close(
        waited.cache.keys[:, :, : 5 + rows], at_once.cache.keys[:, :, : 5 + rows]
    )
    torch.testing.assert_close(proposals[1].peaks, proposals[0].peaks)
    assert torch.equal(proposals[1].tokens, proposals[0].tokens)
