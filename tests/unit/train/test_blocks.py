import torch

from dflash_deploy.train import blocks, recipe
from dflash_deploy.train.blocks import Answer, Feed


def answered(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def feed(lengths, size=4, seed=0, length=512):
    rows = [Answer(i, [i % 9] * n, [0] + [1] * (n - 1)) for i, n in enumerate(lengths)]
    return Feed(rows, size=size, length=length, seed=seed)


def test_the_same_order_whenever_it_is_asked_for_and_another_in_each_pass():
    one, two = feed([8] * 50), feed([8] * 50)
    assert torch.equal(one.order(2), two.order(2))
    assert not torch.equal(one.order(2), one.order(3))
    assert not torch.equal(one.order(2), feed([8] * 50, seed=1).order(2))
    assert sorted(one.order(2).tolist()) == list(range(50))


def test_every_sequence_is_seen_once_in_a_pass_also_where_a_batch_spans_two():
    for size in (3, 4):
        one = feed([8, 9, 10, 11, 12, 13], size=size)
        seen = [index for step in range(6) for index in one.picked(step)]
        passes = [seen[start : start + 6] for start in range(0, 6 * size, 6)]
        assert all(sorted(each) == list(range(6)) for each in passes)


def test_sequences_of_a_batch_are_about_equally_long():
    one = feed([20] * 40 + [400] * 40, size=8)
    widths = sorted(one.at(step, anchors=2).ids.shape[1] for step in range(10))
    assert widths == [64] * 5 + [448] * 5


def test_an_anchor_is_a_token_of_the_answer_that_another_one_follows():
    mask = answered([0, 0, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0])
    anchors = blocks.draw(mask, 5, torch.Generator().manual_seed(0))
    assert sorted(set(anchors[0].tolist())) == [-1, 2, 3]
    assert sorted(set(anchors[1].tolist())) == [-1, 1]


def test_what_a_block_may_see():
    seen = blocks.visible(torch.tensor([[2, 4]]), 2, 5)[0, 0].int().tolist()
    assert seen[0] == seen[1] == [1, 1, 0, 0, 0, 1, 1, 0, 0]
    assert seen[2] == seen[3] == [1, 1, 1, 1, 0, 0, 0, 1, 1]


def test_a_place_behind_the_answer_counts_nothing():
    one = blocks.Batch(
        torch.tensor([[9, 5, 6, 7, 8]]), answered([0, 1, 1, 1, 0]), torch.tensor([[1, 3, -1]])
    )
    tokens, counts = blocks.drafted(one, 4, torch.tensor([1.0, 0.5, 0.25]))
    assert tokens[0, 0].tolist() == [6, 7, 8]
    assert counts.tolist() == [[[1.0, 0.5, 0.0], [0, 0, 0], [0, 0, 0]]]


def test_a_batch_is_cut_to_the_length_and_the_same_each_time():
    one = feed([100, 110, 120, 130], length=125, seed=1).at(3, anchors=2)
    again = feed([100, 110, 120, 130], length=125, seed=1).at(3, anchors=2)
    assert one.ids.shape == (4, 128)
    assert one.answered.sum(1).max() == 124
    assert torch.equal(one.ids, again.ids)
    assert torch.equal(one.anchors, again.anchors)


def test_weights_of_the_paper():
    assert [round(w, 3) for w in recipe.weights(8)] == [
        1.0,
        0.779,
        0.607,
        0.472,
        0.368,
        0.287,
        0.223,
    ]
    assert round(recipe.weights(16)[1], 3) == 0.867


def test_taps_are_spread_from_the_second_to_the_third_to_last():
    assert recipe.taps(36) == [1, 9, 17, 25, 33]
    assert recipe.taps(30) == [1, 8, 14, 20, 27]
    assert recipe.taps(5) == [1, 2]
    assert recipe.taps(4) == [1]
    assert recipe.taps(2) == [1]
    assert recipe.taps(1) == [0]
