from types import SimpleNamespace

import torch
from torch.autograd import DeviceType

from phmrun.bench import timing
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


def test_a_kernel_counts_once_within_its_operation(monkeypatch):
    class Recorded:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def key_averages(self):
            launched = {"key": "aten::mm", "count": 1, "self_device_time_total": 3e6, "device_type": DeviceType.CPU}
            kernel = {"key": "gemm", "count": 1, "self_device_time_total": 3e6, "device_type": DeviceType.CUDA}
            return [SimpleNamespace(**event) for event in (launched, kernel)]

    monkeypatch.setattr(timing, "profile", lambda **_: Recorded())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert timing.profile_call(lambda: None, device="cuda") == [timing.Operation("aten::mm", 1, 3.0, 1.0)]
