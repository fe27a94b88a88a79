import threading

import pytest

from dflash_deploy.server.worker import Worker


def test_everything_runs_in_one_other_thread_in_order():
    worker, ran = Worker(), []
    futures = [worker.submit(lambda i=i: ran.append(i) or threading.get_ident()) for i in range(5)]
    threads = {future.result(5) for future in futures}
    assert ran == [0, 1, 2, 3, 4]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_what_it_raises_is_the_callers_and_the_thread_lives_on():
    worker = Worker()
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0).result(5)
    with pytest.raises(SystemExit):
        worker.submit(lambda: (_ for _ in ()).throw(SystemExit)).result(5)
    assert worker.submit(lambda: 1).result(5) == 1
