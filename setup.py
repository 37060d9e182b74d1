"""What pyproject.toml cannot say: the folder configs/ is installed as the package ``phmrun.configs``."""

from setuptools import find_namespace_packages, setup

FOUND = find_namespace_packages(
    include=["phmrun", "phmrun.*", "tasks", "tasks.*", "configs", "configs.*"], exclude=["*__pycache__*"]
)

setup(
    packages=[f"phmrun.{name}" if name.split(".")[0] == "configs" else name for name in FOUND],
    package_dir={"phmrun.configs": "configs"},
)
