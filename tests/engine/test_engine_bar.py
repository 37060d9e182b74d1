"""The bar of a training in a terminal of 80 columns."""

import io

from rich.console import Console

from phmrun.engine.progress import training_bar


def test_one_line_of_80_columns_has_a_bar_steps_loss_and_time_left():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    bar = training_bar(1_000_000, console)
    bar.update(bar.add_task("", total=1_000_000, completed=500_000), description="loss 12.345")
    console.print(bar.get_renderable())
    (line,) = console.file.getvalue().splitlines()
    assert line.count("━") >= 10  # half of at least 20
    assert line.endswith("500000/1000000 loss 12.345 -:--:--")
