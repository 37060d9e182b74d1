"""Registries of plug-ins, from entry points and ``--plugin FILE``.

Imports no torch.

Listing names reads package metadata only. The module of a name is imported when the name is used.

==================  ==========================  ========================================================================
registry            entry-point group           object behind a name
==================  ==========================  ========================================================================
`TASKS`             ``phmrun.tasks``            a `phmrun.task.Task`
`STRUCTURES`        ``phmrun.structures``       a subclass of ``phmrun.layers.Structure``
`EMBEDDINGS`        ``phmrun.embeddings``       a function that builds a table of word vectors
`networks(family)`  ``phmrun.networks.FAMILY``  ``build(config, *sizes)`` that returns the network, or its class, which
                                                has ``options``, its section of the configuration (a subclass of
                                                ``phmrun.config.ModelConfig``), and is called as
                                                ``Network(options, sizes, structures)``
`METRICS`           ``phmrun.metrics``          a `phmrun.metric.Metric`
`LOSSES`            ``phmrun.losses``           a function of logits ``[items, classes]`` and targets ``[items]``
`OPTIMIZERS`        ``phmrun.optimizers``       a `torch.optim.Optimizer`, or a function with its signature
`SCHEDULES`         ``phmrun.schedules``        a function of the schedule's settings that returns rate(step)
`DATASETS`          ``phmrun.datasets``         a mapping as in ``phmrun/datasets/entries/*.yaml``
==================  ==========================  ========================================================================

A package announces ``name = "module:object"`` in the group; a plug-in file calls ``REGISTRY.add(name, object)``.
"""

import ast
import functools
import hashlib
import importlib
import importlib.util
import re
import shutil
import sys
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from phmrun.errors import PhmrunError, nearest, unknown
from phmrun.files import replacing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,79}")
"""Valid names in registries: at most 80 characters, no spaces, line ends or escapes."""
OURS = "phmrun"
PLUGIN = "phmrun_plugin_"
"""Beginning of the names of modules of plug-in files."""


def extra_package(name: str, extra: str) -> Any:
    """Import and return a package that an extra of phmrun installs.

    Raises:
        PhmrunError: (exit 2) It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = f'Run: pip install "phmrun[{extra}]"'
        raise PhmrunError(f"the package {error.name or name!r} is not installed", hint=hint) from error


class Announcement(NamedTuple):
    """An entry point, and the distribution that announces it."""

    point: "EntryPoint"
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """Distribution, version and place of the object: "layers 1.0 (layers.mine:Mine)"."""
        return f"{self.distribution} {self.version} ({self.point.value})"


class Registry:
    """Objects of one kind by name, from an entry-point group and from plug-in files.

    Args:
        kind: Name of the kind in errors: "task", "layer".
        group: Entry-point group.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._registered: dict[str, Any] = {}
        self.places: dict[str, str] = {}  # file and line that call `add`

    @property
    def _announced(self) -> Mapping[str, Sequence[Announcement]]:
        """Announcements of the group by name, several if several packages announce it."""
        return _announcements().get(self.group, {})

    def names(self) -> list[str]:
        """Return all names, sorted; nothing is imported."""
        return sorted(self._announced.keys() | self._registered.keys())

    def foreign_names(self) -> list[str]:
        """Return the names of plug-ins and of other packages, sorted; nothing is imported."""
        return [name for name in self.names() if all(by.distribution != OURS for by in self._announced.get(name, ()))]

    def __contains__(self, name: str) -> bool:
        """Return True if the name exists; nothing is imported."""
        return name in self._registered or name in self._announced

    def get(self, name: str, *, where: str | None = None) -> Any:
        """Import and return the object of a name.

        Later calls return the same object. ``where`` is the place in the error.

        Raises:
            PhmrunError: (exit 2) The name is unknown, or two packages announce it.
            ImportError, AttributeError: The announced module or object does not exist.
        """
        if name not in self:
            raise unknown(self.kind, name, self.names(), where=where)
        if name in self._announced:
            self._only(name)  # also if a module that was imported has registered the name itself
        if name not in self._registered:
            self._registered[name] = self._only(name).point.load()
        return self._registered[name]

    def announcement(self, name: str) -> Announcement | None:
        """Return the announcement of a name.

        The result is ``None`` if no installed package announces it.

        Raises:
            PhmrunError: (exit 2) Two packages announce it.
        """
        return self._only(name) if name in self._announced else None

    def _only(self, name: str) -> Announcement:
        """Return the only announcement of a name.

        Raises:
            PhmrunError: (exit 2) Two packages announce it.
        """
        first, *others = self._announced[name]
        if others:
            both = " and ".join(announcement.origin for announcement in (first, *others))
            hint = f"Uninstall one of them (pip uninstall {others[-1].distribution}), or have its authors rename it."
            raise PhmrunError(f"the {self.kind} name {name!r} is announced twice: by {both}", hint=hint)
        return first

    def add(self, name: str, value: Any) -> None:
        """Register an object.

        A class or function of the same qualified name, or an equal object, replaces the former. The object that an
        installed package announces under the name may be registered, too.

        Raises:
            PhmrunError: (exit 2) The name is malformed, taken, or announced by an installed package for another object;
                or the object cannot be called, as all but tasks, metrics and datasets are.
        """
        if not NAME.fullmatch(name):
            what = f"{name!a} is not a valid name of a {self.kind}"
            raise PhmrunError(what, hint="A name consists of letters, digits and . _ + - /, 80 at most.")
        hint = "Register it under another name."
        if name in self._announced and not _is_at(value, self._only(name).point.value):
            raise PhmrunError(f"the {self.kind} name {name!r} is reserved by {self._only(name).origin}", hint=hint)
        taken = self._registered.get(name, value)
        # Without module and memory address, so that a plug-in file may be loaded again.
        titles = (str(getattr(thing, "__qualname__", thing)) for thing in (taken, value))
        former, new = (re.sub(" at 0x[0-9a-f]+", "", title) for title in titles)
        if former != new:
            raise PhmrunError(f"the {self.kind} name {name!r} is already taken", hint=hint)
        if not callable(value) and self not in (TASKS, METRICS, DATASETS):
            raise PhmrunError(f"the {self.kind} {name!r} is no class or function, but {value!r:.40}")
        self._registered[name], frame = value, sys._getframe(1)
        self.places[name] = f"{frame.f_code.co_filename}:{frame.f_lineno}"


TASKS = Registry("task", "phmrun.tasks")
STRUCTURES = Registry("layer", "phmrun.structures")
EMBEDDINGS = Registry("embedding", "phmrun.embeddings")
METRICS = Registry("metric", "phmrun.metrics")
LOSSES = Registry("loss", "phmrun.losses")
OPTIMIZERS = Registry("optimizer", "phmrun.optimizers")
SCHEDULES = Registry("schedule", "phmrun.schedules")
DATASETS = Registry("dataset", "phmrun.datasets")


FAMILIES: dict[str, Registry] = {}
"""Registries of networks, by the families that were asked for."""


def networks(family: str) -> Registry:
    """Return the registry of a family's networks, which ``model.network`` names.

    Families are "sva", "nli", "parse", "lm", "sequence_to_sequence" and those of packages.
    """
    return FAMILIES.setdefault(family, Registry("network", f"phmrun.networks.{family}"))


def _is_at(value: Any, place: str) -> bool:
    """Return True if an object is at an entry point's ``module:name``.

    Only the package is compared for objects of other packages, and for those that are no classes. An object that cannot
    be called is at no place.
    """
    module, _, name = place.partition(":")
    built = getattr(value, "build", value)  # an embedding is known by the function that builds it
    home = getattr(built, "__module__", None) if callable(built) else None
    if home is None or home.partition(".")[0] != module.partition(".")[0]:
        return False
    return not isinstance(value, type) or home.partition(".")[0] != OURS or (home, value.__qualname__) == (module, name)


@functools.cache
def _announcements() -> dict[str, dict[str, list[Announcement]]]:
    """Return the announcements of all packages by group and name; cached.

    Invalid names are left out; the same announcement of one distribution counts once.
    """
    groups: dict[str, dict[str, list[Announcement]]] = {}
    for announcement in all_announcements():
        point = announcement.point
        if NAME.fullmatch(point.name):
            same = groups.setdefault(point.group, {}).setdefault(point.name, [])
            # An editable install may have two directories of metadata.
            if (announcement.distribution, point.value) not in [(a.distribution, a.point.value) for a in same]:
                same.append(announcement)
    return groups


@functools.cache
def all_announcements() -> tuple[Announcement, ...]:
    """Return the entry points in phmrun's groups, its own first; cached.

    In a checkout, phmrun's own are read from ``pyproject.toml``, because the metadata of an editable install may be
    outdated.
    """
    from importlib.metadata import EntryPoint, distributions

    announcements: list[Announcement] = []
    ours = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"] if _PROJECT.is_file() else {}
    checkout = ours.get("name") == OURS
    for group, places in (ours.get("entry-points", {}) if checkout else {}).items():
        points = [EntryPoint(name, place, group) for name, place in places.items()]
        announcements += [Announcement(point, OURS, str(ours.get("version", ""))) for point in points]
    for distribution in distributions():
        points = [point for point in distribution.entry_points if point.group.startswith("phmrun.")]
        if points and not (checkout and distribution.name == OURS):
            announcements += [Announcement(point, distribution.name, distribution.version) for point in points]
    return tuple(sorted(announcements, key=lambda announcement: announcement.distribution != OURS))


def load_plugin(path: Path) -> str:
    """Import a plug-in file, and return its SHA-256.

    Each call executes the file, also if it was loaded before. The file registers its objects, and can import modules of
    its folder. A :class:`PhmrunError` of the file itself is passed on, with file and line if it names no place.

    Raises:
        PhmrunError: (exit 2) The file does not exist, is not a Python file, or raises an error.
    """
    if not path.is_file():
        close = nearest(path.name, [file.name for file in path.parent.glob("*.py")])
        hint = f"Did you mean {' or '.join(str(path.with_name(name)) for name in close)}?" if close else None
        raise PhmrunError("the plug-in file does not exist", where=path, hint=hint)
    name = f"{PLUGIN}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PhmrunError("a plug-in must be a Python file", where=path, hint="Name it with the ending .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.absolute().parent)
    sys.path.append(folder)  # last, so that no file of the folder hides an installed module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == path.absolute()]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f"{path}:{line}" if line else str(path)
        if isinstance(error, PhmrunError):
            error.where = error.where or where
            raise
        raise PhmrunError(f"the plug-in does not import: {type(error).__name__}: {error}", where=where) from error
    finally:
        sys.path.remove(folder)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def loaded_plugins() -> list[Path]:
    """Return the plug-in files that this process has imported, by name."""
    names = sorted(name for name in sys.modules if name.startswith(PLUGIN))
    return [Path(str(sys.modules[name].__file__)) for name in names]


def plugin_folders() -> set[Path]:
    """Return the absolute folders of the plug-in files that this process has imported."""
    return {path.absolute().parent for path in loaded_plugins()}


def is_plugin(module: str) -> bool:
    """True if an imported module is a plug-in file, or beside one."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return bool(file) and Path(str(file)).absolute().parent in plugin_folders()


def plugin_files() -> dict[str, Path]:
    """Return the plug-in files that this process has imported, and modules beside them that they import, by name.

    Files that have been removed since are left out.
    """
    files = [file for file in loaded_plugins() if file.is_file()]
    return {plugin_name(path): path for file in files for path in (file, *_imported_beside(file))}


def load_plugins(paths: Iterable[Path] | None) -> dict[Path, str]:
    """Import plug-in files, and return the SHA-256 of each.

    Modules of a file's folder that it imports are in the result, too, as are those of packages there.

    The result is empty without files.

    Raises:
        PhmrunError: (exit 2) A file does not exist, is not a Python file, or raises an error; or two have one name. A
            module has changed since this process imported it, and would be used as it was. A metric names no task.
    """
    sums, marks = dict[Path, str](), dict[str, str]()
    for path in paths or ():
        files = {path: load_plugin(path)}
        for module in _imported_beside(path):
            files[module] = hashlib.sha256(module.read_bytes()).hexdigest()
            if _IMPORTED.setdefault(module.resolve(), files[module]) != files[module]:
                what = "the module of a plug-in has changed since it was imported"
                raise PhmrunError(what, where=module, hint="Start Python again; a notebook: restart its kernel.")
        for mark, digest in plugin_marks(files).items():
            if marks.setdefault(mark, digest) != digest:
                raise PhmrunError(f"two files have the name of {mark}", where=path, hint="Rename one of them.")
        sums |= files
    for name, place in METRICS.places.items():
        tasks = getattr(METRICS._registered.get(name), "tasks", ())
        if isinstance(tasks, str) or not {*tasks} <= {*TASKS.names()}:
            what = f"the metric {name!r} has tasks={tasks!r}, which is no tuple of tasks"
            raise PhmrunError(what, where=place, valid=TASKS.names(), hint='Write for example tasks=("sva",).')
    return sums


_IMPORTED: dict[Path, str] = {}
"""SHA-256 of the modules that plug-ins have imported, as they were then; Python imports a module once."""


def _imported_beside(path: Path) -> list[Path]:
    """Return the modules of a plug-in's folder that it imports, with those of packages there.

    Import statements are followed, also those of such modules. Order is that of discovery.
    """
    sources = [path]
    for source in sources:  # grows
        for name in _imported_names(source, source.relative_to(path.parent).parent.parts):
            parts = name.split(".")
            module = sys.modules.get(parts[0])
            places = getattr(module, "__path__", None) or [getattr(module, "__file__", None) or ""]
            first = path.parent / parts[0]
            if {Path(place).resolve() for place in places} & {first.resolve(), first.with_suffix(".py").resolve()}:
                stems = [path.parent.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
                files = [file for stem in stems for file in (stem / "__init__.py", stem.with_suffix(".py"))]
                sources += [file for file in files if file not in sources and file.is_file()]
    return sources[1:]


def _imported_names(source: Path, package: Sequence[str]) -> Iterator[str]:
    """Yield the dotted names that a file of a package imports: modules, and members that may be modules."""
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            yield from (".".join(filter(None, (*above, node.module, alias.name))) for alias in node.names)


def plugin_name(path: Path) -> str:
    """Return the path of a plug-in file, or of a module that it imports, below the plug-in's folder."""
    file = path.absolute()
    folders = plugin_folders() & {*file.parents}
    return min((file.relative_to(folder).as_posix() for folder in folders), key=len, default=path.name)


def plugin_marks(plugins: Mapping[Path, str]) -> dict[str, str]:
    """Return the checksums of loaded plug-in files by "plugin NAME", with names as by :func:`plugin_name`.

    They are part of an experiment's identity.
    """
    return {f"plugin {plugin_name(path)}": digest for path, digest in plugins.items()}


def copy_plugins(plugins: Iterable[Path], run: Path) -> None:
    """Copy plug-in files into a run, so that a recipient can read them, and use them if they trust them."""
    for path in plugins:
        with replacing(run / "plugins" / plugin_name(path)) as temporary:
            shutil.copyfile(path, temporary)


FREEZE = "freeze"
"""Option of all structures, in addition to those of the constructor; a configuration contains it only if set."""


def load(place: str) -> Any:
    """Import and return the object at ``module:name``.

    Raises:
        ImportError, AttributeError: There is no such module, or no such name in it.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
