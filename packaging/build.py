"""Build packages of GGUF Explorer, and start each one as a user would.

  .venv/bin/python packaging/build.py [wheel] [frozen] [appimage] [flatpak] [--model PATH]

Without a name: wheel, frozen and appimage. MODEL is opened by what was built; without one it is the
demo model. Packages are in dist/, screenshots of their windows in build/screenshots/: look at them.
Needs the extras gui, nvidia, remote and packaging; packaging/README.md has the programs of the
system.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tools import BUILD, DIST, PackagingError, fail, say

STANDARD = ("wheel", "frozen", "appimage")


def wheel(model: Path) -> None:
    """Build the wheel and the source archive, and start the wheel."""
    import python_package  # noqa: PLC0415 - each package needs other things

    python_package.build_wheel()
    python_package.start_wheel(model)


def frozen(model: Path) -> None:
    """Freeze the program, start it, and pack it."""
    import frozen as package  # noqa: PLC0415 - needs PyInstaller

    package.build_frozen()
    package.start_frozen(model)
    package.pack_frozen()


def appimage(model: Path) -> None:
    """Make the AppImage's folder from the frozen program, and start it."""
    import appimage as package  # noqa: PLC0415 - as above

    package.build_appimage()
    package.start_appimage(model)


def flatpak(_model: Path) -> None:
    """Build the Flatpak, where flatpak-builder and its runtime can be had."""
    import flatpak as package  # noqa: PLC0415 - as above

    package.build_flatpak()


PACKAGES: dict[str, Callable[[Path], None]] = {
    "wheel": wheel,
    "frozen": frozen,
    "appimage": appimage,
    "flatpak": flatpak,
}


def main(arguments: list[str]) -> int:
    """Build and start what was asked for; return the exit status."""
    description, *rest = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(
        prog="build.py",
        description=description,
        epilog="\n\n".join(rest),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--model", type=Path, help="a model that the window opens")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in PACKAGES]
    if unknown:
        parser.error(f"there is no package {', '.join(unknown)}")
    for folder in (DIST, BUILD):
        folder.mkdir(exist_ok=True)
    try:
        from explorer.paths import demo_model  # noqa: PLC0415 - --help needs none of it

        model = demo_model() if options.model is None else options.model.absolute()
        for name in options.names or STANDARD:
            say(f"== {name}")
            PACKAGES[name](model)
    except PackagingError as error:
        fail(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
