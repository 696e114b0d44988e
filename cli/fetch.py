"""What checkpoints.sh, models.sh and quantize.sh do: `python -m ggtts.cli.fetch checkpoints|models|quantize ...`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.errors import ModelFileError, OutputError
from ..core.formats.kinds import escaped
from .errors import run
from .options import SETTINGS

if TYPE_CHECKING:
    from ..core.convert.fetch import Hub, Item

QUANTISED = ("BF16", "Q8_0", "Q4_K_M")
"""What quantize.sh makes when no type is named."""
SOURCE_ENDING = "-F32.gguf"
VARIANTS = "VARIANT..."


@dataclass(frozen=True)
class Services:
    """What the commands use of the world; a test hands in its own as `context.obj`."""

    hub: Callable[[], Hub]
    """Opens the hub; not called when nothing is missing."""
    quantize: Callable[[Path, Path, str], int]
    """Writes a smaller file, and returns an exit code."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones."""
        from ..core.convert.fetch import HuggingFaceHub

        return cls(HuggingFaceHub, _quantize_file)


class _LazyHub:
    """Opens the hub when it is first asked for something: what is complete needs none, nor the package behind it."""

    def __init__(self, open_hub: Callable[[], Hub]) -> None:
        self._open = open_hub

    def sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each file of a repository."""
        return self._open().sizes(repository)

    def download(self, repository: str, name: str, folder: Path) -> None:
        """Put a file into a folder."""
        self._open().download(repository, name, folder)


def _target_option(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--dir",
        "target",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        default=default,
        show_default=True,
        help="Folder to put them in.",
    )


def _list_option() -> Callable[[Any], Any]:
    return click.option("--list", "listing", is_flag=True, help="Print the variants, and which are here.")


@click.command("checkpoints.sh", context_settings=SETTINGS)
@click.argument("variants", nargs=-1, metavar=f"[{VARIANTS}]")
@_target_option("checkpoints")
@_list_option()
@click.pass_obj
def checkpoints(services: Services | None, variants: tuple[str, ...], target: Path, listing: bool) -> None:
    """Download official checkpoints from Hugging Face, for ./convert.py.

    \b
    ./checkpoints.sh 0.6b-base            one of them; the codec is inside
    ./checkpoints.sh 0.6b-base omnivoice  several
    ./checkpoints.sh                      all of them (about 23 GB)

    A download that was broken off goes on where it stopped; what is complete is left alone.
    """
    from ..core.convert.fetch import ALL, checkpoint_items

    _fetch(services, checkpoint_items(), variants or (ALL,), target, listing)


@click.command("models.sh", context_settings=SETTINGS)
@click.argument("variants", nargs=-1, metavar=f"[{VARIANTS}]")
@click.option(
    "--type",
    "kind",
    metavar="TYPE",
    default="Q8_0",
    show_default=True,
    help="Type of talkers and language models: F32 BF16 Q8_0 Q4_K_M.",
)
@click.option(
    "--codec-type",
    "codec_kind",
    metavar="TYPE",
    default="F32",
    show_default=True,
    help="Type of the codecs.",
)
@_target_option("models")
@_list_option()
@click.pass_obj
def models(
    services: Services | None,
    variants: tuple[str, ...],
    kind: str,
    codec_kind: str,
    target: Path,
    listing: bool,
) -> None:
    """Download converted models, each with its codec, ready to speak.

    \b
    ./models.sh                           0.6b-base
    ./models.sh 1.7b-customvoice omnivoice
    ./models.sh --type Q4_K_M 1.7b-base

    A download that was broken off goes on where it stopped; what is complete is left alone.
    """
    from ..core.convert.fetch import model_items

    _fetch(services, model_items(kind, codec_kind), variants or ("0.6b-base",), target, listing)


@click.command("quantize.sh", context_settings=SETTINGS)
@click.argument("types", nargs=-1, metavar="[TYPE...]")
@_target_option("models")
@_list_option()
@click.pass_obj
def quantize(services: Services | None, types: tuple[str, ...], target: Path, listing: bool) -> None:
    """Make smaller copies of every model of type F32 in models/.

    \b
    ./quantize.sh                         BF16, Q8_0 and Q4_K_M of each
    ./quantize.sh Q5_K_M Q6_K

    Files that exist are left alone. For one file and all options: ./quantize.py
    """
    _check_types(types)
    wanted = [kind.upper() for kind in types] or list(QUANTISED)
    sources = sorted(target.glob(f"*{SOURCE_ENDING}"))
    if not sources:
        raise ModelFileError(
            f"{target}: holds no model of type F32 (*{SOURCE_ENDING}); ./convert.py makes them"
        )
    jobs = [(source, _output(source, kind), kind) for source in sources for kind in wanted]
    if listing:
        for _, output, _ in jobs:
            click.echo(f"{'here' if output.exists() else '-':8} {escaped(str(output))}")
        return
    _quantize_all(services or Services.installed(), jobs, target)


def _check_types(types: Sequence[str]) -> None:
    from ..core.convert.quantize_plan import TYPES
    from ..core.errors import unknown_value

    for kind in types:
        if kind.upper() not in TYPES:
            raise unknown_value("type", kind, TYPES, listed=len(TYPES))


def _output(source: Path, kind: str) -> Path:
    return source.with_name(f"{source.name.removesuffix(SOURCE_ENDING)}-{kind}.gguf")


def _quantize_all(services: Services, jobs: Sequence[tuple[Path, Path, str]], target: Path) -> None:
    """Make every output that is missing; the first failure ends the run with its exit code."""
    for source, output, kind in jobs:
        if output.exists():
            click.echo(f"[Skip] {output}: exists", err=True)
            continue
        # The largest that an output can be, its source in half as many bits, is what a run needs free.
        needed, free = source.stat().st_size // 2, shutil.disk_usage(target).free
        if needed > free:
            raise OutputError(
                f"{output} may take {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free in {target}"
            )
        code = services.quantize(source, output, kind)
        if code:
            raise click.exceptions.Exit(code)


def _quantize_file(source: Path, output: Path, kind: str) -> int:
    from .quantize import NAME, command

    return run(command, NAME, [str(source), str(output), kind])


def _fetch(
    services: Services | None, items: list[Item], variants: Sequence[str], target: Path, listing: bool
) -> None:
    from ..core.convert.fetch import Fetcher, select

    services = services or Services.installed()
    fetcher = Fetcher(_LazyHub(services.hub), target, lambda line: click.echo(line, err=True))
    chosen = select(items, variants)
    if not listing:
        fetcher.fetch(chosen)
        return
    for item in items:
        state = "here" if fetcher.is_complete(item) else f"{item.gigabytes:.1f} GB"
        click.echo(f"{item.variant:18} {state:8} {item.repositories[0]}")


COMMANDS = {"checkpoints": checkpoints, "models": models, "quantize": quantize}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one of the three as a program; the script of that name passes its arguments on."""
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if name not in COMMANDS:
        sys.exit(f"expected one of {', '.join(COMMANDS)}, not {name!r}")
    command = COMMANDS[name]
    sys.exit(run(command, str(command.name), rest))


if __name__ == "__main__":
    main()
