import math

import pytest
import torch

from dflash_deploy.speculative.sampling import Chooser, Proposal, distribution
from dflash_deploy.speculative.types import Sampling

CPU = torch.device("cpu")
ONES = torch.ones(3)
LOGITS = torch.tensor([1.0, 3.0, 2.0, 0.0, 2.5])


def sampling(**settings):
    return Sampling(8, **{"temperature": 1.0, **settings})


def unlikely(counts, weights):
    """Chi-square against the weights, as a standard normal (Wilson and Hilferty)."""
    expected = [counts_total * w for w in weights for counts_total in (sum(counts),)]
    pairs = [(n, e) for n, e in zip(counts, expected, strict=True) if e > 0]
    assert all(n == 0 for n, e in zip(counts, expected, strict=True) if e == 0)
    freedom = len(pairs) - 1
    value = sum((n - e) ** 2 / e for n, e in pairs)
    spread = 2 / (9 * freedom)
    return ((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def test_temperature_alone_is_a_softmax():
    found = distribution(LOGITS, sampling(temperature=0.5))
    torch.testing.assert_close(found, (LOGITS * 2).softmax(-1))


def test_top_k_keeps_the_k_best():
    found = distribution(LOGITS, sampling(top_k=2))
    assert found.nonzero()[:, 0].tolist() == [1, 4]
    torch.testing.assert_close(found[[1, 4]], torch.tensor([3.0, 2.5]).softmax(-1))


@pytest.mark.parametrize(("top_p", "kept"), [(0.01, [1]), (0.5, [1, 4]), (0.75, [1, 2, 4])])
def test_top_p_keeps_the_fewest_that_reach_it(top_p, kept):
    found = distribution(LOGITS, sampling(top_p=top_p))
    assert found.nonzero()[:, 0].tolist() == kept
    assert float(found.sum()) == pytest.approx(1)


def test_top_p_over_a_flat_vocabulary_needs_the_full_sort():
    found = distribution(torch.zeros(5000), sampling(top_p=0.5))
    # give or take the rounding of a long sum
    assert abs(int((found > 0).sum()) - 2500) <= 2


def test_greedy_accepts_up_to_the_first_difference():
    logits = torch.nn.functional.one_hot(torch.tensor([3, 1, 2, 4]), 5).float()
    chooser = Chooser(Sampling(8), CPU)
    for proposed, accepted, token in (
        ([3, 1, 2], 3, 4),
        ([3, 0, 2], 1, 1),
        ([0, 1, 2], 0, 3),
    ):
        verdict = chooser.verify(logits, Proposal(torch.tensor(proposed), ONES))
        assert (verdict.accepted, verdict.token) == (accepted, token)


def proposer(kind, generator):
    """A draft's proposal for one position, drawn as a draft draws."""
    if kind == "one bad token":
        return Proposal(torch.tensor([3]), ONES)
    support = torch.tensor([[0, 1, 3]])
    weights = torch.tensor([[0.1, 0.2, 0.7]]) if kind == "bad" else LOGITS[support].softmax(-1)
    drawn = torch.multinomial(weights[0], 1, generator=generator)
    return Proposal(support[0, drawn], ONES, support, weights)


@pytest.mark.parametrize("kind", ["one bad token", "bad", "good"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_p": 0.9}, {"top_k": 3}])
def test_the_first_token_has_the_targets_distribution(kind, settings):
    rule = sampling(seed=5, **settings)
    chooser = Chooser(rule, CPU)
    logits = torch.stack([LOGITS, LOGITS.flip(0)])
    counts, accepted = [0] * 5, 0
    for _ in range(3000):
        proposal = proposer(kind, chooser.generator)
        verdict = chooser.verify(logits, proposal)
        accepted += verdict.accepted
        counts[int(proposal.tokens[0]) if verdict.accepted else verdict.token] += 1
    assert unlikely(counts, distribution(LOGITS, rule).tolist()) < 3.3
    if kind == "good":
        # its support lacks likely tokens, so it is not accepted always
        assert 900 < accepted < 3000


def test_a_draft_equal_to_the_target_is_always_accepted():
    chooser = Chooser(sampling(seed=1), CPU)
    weights = LOGITS.softmax(-1)[None]
    support = torch.arange(5)[None]
    for _ in range(500):
        token = torch.multinomial(weights[0], 1, generator=chooser.generator)
        verdict = chooser.verify(LOGITS.expand(2, -1), Proposal(token, ONES, support, weights))
        assert verdict.accepted == 1


def test_a_seed_repeats_and_its_absence_does_not():
    flat = torch.zeros(1000)

    def draws(seed):
        chooser = Chooser(sampling(seed=seed), CPU)
        return [chooser.choose(flat) for _ in range(8)]

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)
    assert draws(None) != draws(None)


@pytest.mark.parametrize("rule", [{"temperature": 1e-38}, {"temperature": 1.0, "top_p": 1e-50}])
def test_the_coldest_rules_leave_the_likeliest_token(rule):
    logits = torch.tensor([0.1, 3.0, 2.0, -1.0])
    chooser = Chooser(Sampling(4, seed=1, **rule), torch.device("cpu"))
    assert [chooser.choose(logits) for _ in range(20)] == [1] * 20
