import torch

from phmrun.bench.timing import profile_call


def test_the_operations_that_take_the_time():
    matrix = torch.randn(200, 200)

    def call():
        for _ in range(3):
            (matrix @ matrix).relu()

    operations = profile_call(call)
    by_name = {operation.name: operation for operation in operations}
    assert by_name["aten::mm"].calls == 3
    assert by_name["aten::clamp_min"].calls == 3 or by_name["aten::relu"].calls == 3
    assert [operation.seconds for operation in operations] == sorted((o.seconds for o in operations), reverse=True)
    assert 0.99 < sum(operation.share for operation in operations) <= 1.001
    assert len(profile_call(call, most=1)) == 1
