"""One thread for arithmetic, here and in processes that tests start: the models are tiny and the machine is shared."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
