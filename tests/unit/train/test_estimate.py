import pytest

from dflash_deploy.registry import load
from dflash_deploy.train import estimate
from tests.unit.train import small


@pytest.fixture(scope="module")
def size():
    return estimate.size_of(load(user=False).find("smollm2-135m").target)


def test_a_draft_of_four_layers_is_as_large_as_the_one_that_ships(size):
    shipped = load(user=False).find("smollm2-135m").model.drafts[0].parameters
    assert size.draft(small.recipe(layers=4)) == pytest.approx(shipped, rel=0.01)


def test_more_of_anything_takes_longer(size):
    def seconds(device=estimate.CPU, **changed) -> float:
        return estimate.estimate(small.recipe(**changed), size, device).seconds

    assert seconds(steps=200) > seconds(steps=100)
    assert seconds(layers=5) > seconds(layers=2)
    assert seconds(prompts=2000) > seconds()
    # they are written before they are answered, and never by the server
    assert seconds(self_prompts=1000) > seconds(prompts=2000)
    assert seconds(self_prompts=1000, url="http://x") > seconds(prompts=2000, url="http://x")
    # an answer ends where the sequence does
    assert seconds(answer_tokens=10**6) == seconds(answer_tokens=48)
    assert seconds(url="http://x") < seconds()
    assert seconds(estimate.GPU) < seconds()


def test_memory_is_the_sum_of_its_parts(size):
    found = estimate.estimate(small.recipe(), size, estimate.CPU)
    assert found.memory_bytes == sum(each.value for each in found.memory)
    assert found.memory[0].value == pytest.approx(135e6 * 4, rel=0.01)


def test_counts_as_the_registry_writes_them():
    assert estimate.count("135M") == 135e6
    assert estimate.count("8.2B") == pytest.approx(8.2e9)
    assert estimate.count(None) is None
    assert estimate.count("huge") is None
