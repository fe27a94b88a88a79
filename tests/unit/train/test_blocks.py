import torch

from dflash_deploy.train import blocks, recipe
from dflash_deploy.train.blocks import Answer


def answered(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def test_the_same_order_whenever_it_is_asked_for_and_another_in_each_pass():
    assert blocks.order(50, 2, 7) == blocks.order(50, 2, 7)
    assert blocks.order(50, 2, 7) != blocks.order(50, 3, 7)
    assert blocks.order(50, 2, 7) != blocks.order(50, 2, 8)
    assert sorted(blocks.order(50, 2, 7)) == list(range(50))


def test_every_sequence_is_seen_once_in_a_pass_also_where_a_batch_spans_two():
    seen = [index for step in range(10) for index in blocks.picked(6, step, 3, 0)]
    assert sorted(seen[:6]) == list(range(6))
    seen = [index for step in range(6) for index in blocks.picked(6, step, 4, 0)]
    assert all(sorted(seen[start : start + 6]) == list(range(6)) for start in (0, 6, 12, 18))


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
    tokens, counts = blocks.drafted(one, 4, [1.0, 0.5, 0.25])
    assert tokens[0, 0].tolist() == [6, 7, 8]
    assert counts.tolist() == [[[1.0, 0.5, 0.0], [0, 0, 0], [0, 0, 0]]]


def test_a_batch_is_cut_to_the_length_and_the_same_each_time():
    rows = [Answer(i, [i] * (4 + i), [0] + [1] * (3 + i)) for i in range(4)]
    one = blocks.batch(rows, 3, size=4, anchors=2, length=6, seed=1)
    again = blocks.batch(rows, 3, size=4, anchors=2, length=6, seed=1)
    assert one.ids.shape == (4, 6)
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
