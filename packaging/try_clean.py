"""Install and start packages on a clean Debian 12, with only what packaging/README.md names.

  sudo python3 packaging/try_clean.py [wheel] [pipx] [frozen] [appimage] [--base FOLDER]
                                      [--model PATH]

BASE is a file system made by debootstrap; it is made if it is not there, and never changed: each
package gets a copy. The program runs in it as a user who is not root, in an empty home folder, and
shows its window on an X server outside. Build the packages before. Screenshots are in
build/screenshots/: look at them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from appimage import IMAGE
from python_package import WHEEL
from run import OFFSCREEN_LIBRARIES, WINDOW_LIBRARIES
from tools import BUILD, DIST, NAME, PackagingError, fail, run, say, tool

BASE = BUILD / "debian-12"
RELEASE = "bookworm"
INCLUDED = "python3,python3-venv,ca-certificates"
USER, USER_ID = "somebody", 1000
_ALL = [*OFFSCREEN_LIBRARIES.values(), *WINDOW_LIBRARIES.values()]
LIBRARIES = {
    "wheel": _ALL,
    "pipx": [*_ALL, "pipx"],
    "frozen": list(OFFSCREEN_LIBRARIES.values()),  # those of X come with the program
    "appimage": list(OFFSCREEN_LIBRARIES.values()),
}
# What the network here needs, and what is no part of the system that is tried
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_DEFAULT_TIMEOUT": "180",
    "PIP_CERT": str(CERTIFICATES),
}
# Mounts vanish with the last process of their own name space, however that ends.
ENTER = """\
root=$1 user=$2 home=$3; shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/tmp/.X11-unix"
[ -d /tmp/.X11-unix ] && mount --bind /tmp/.X11-unix "$root/tmp/.X11-unix"
PATH=$PATH:/usr/sbin
exec chroot --userspec="$user" "$root" env -i HOME="$home" ${DISPLAY:+DISPLAY="$DISPLAY"} "$@"
"""


def enter(root: Path, user: str, home: str) -> list[str | Path]:
    """Return the beginning of a command that runs in another file system."""
    mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh"]
    variables = [f"{name}={value}" for name, value in VARIABLES.items()]
    return [*mounts, root, user, home, *variables]


def make_base(base: Path, release: str = RELEASE, included: str = INCLUDED) -> None:
    """Make the clean file system, unless it is there.

    Raises:
        PackagingError: debootstrap is missing, or failed.
    """
    if (base / "usr" / "bin" / "python3").exists():
        return
    say(f"making a clean Debian {release} in {base}")
    base.mkdir(parents=True, exist_ok=True)
    options = ["--variant=minbase", f"--include={included}"]
    run([tool("debootstrap", "debootstrap"), *options, release, base])


def fresh_copy(base: Path, model: Path) -> Path:
    """Return a copy of the clean system with a user and a model, and nothing else."""
    BUILD.mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="clean-", dir=BUILD))
    run(["cp", "-a", "--reflink=auto", f"{base}/.", root])
    root.chmod(0o755)
    home = root / "home" / USER
    home.mkdir(parents=True)
    os.chown(home, USER_ID, USER_ID)
    (root / "models").mkdir()
    shutil.copy(model, root / "models" / model.name)
    for path in (CERTIFICATES, Path("/etc/resolv.conf")):
        shutil.copy(path, root / str(path).lstrip("/"))
    return root


def install_libraries(root: Path, package: str) -> None:
    """Install the Debian packages that the documentation names, as root."""
    inside = enter(root, "0:0", "/root")
    run([*inside, "apt-get", "update", "-q"])
    names = LIBRARIES[package]
    say(f"apt-get install {' '.join(names)}")
    run([*inside, "apt-get", "install", "-y", "-q", "--no-install-recommends", *names])


def install_wheel(root: Path, inside: list[str | Path]) -> Path:
    """Install the wheel as the user does; return the command."""
    shutil.copy(WHEEL, root / "home" / USER)
    run([*inside, "python3", "-m", "venv", f"/home/{USER}/venv"])
    say("pip install")
    wheel = f"/home/{USER}/{WHEEL.name}[gui]"
    run([*inside, f"/home/{USER}/venv/bin/pip", "install", "--quiet", wheel])
    return Path("/home", USER, "venv", "bin", NAME)


def install_by_pipx(root: Path, inside: list[str | Path]) -> Path:
    """Install the wheel by Debian's pipx; return the command."""
    shutil.copy(WHEEL, root / "home" / USER)
    say("pipx install")
    run([*inside, "pipx", "install", f"/home/{USER}/{WHEEL.name}[gui]"])
    return Path("/home", USER, ".local", "bin", NAME)


def install_frozen(root: Path, _inside: list[str | Path]) -> Path:
    """Unpack the frozen program's archive; return the command."""
    (archive,) = DIST.glob(f"{NAME}-*-linux.tar.xz")
    (root / "opt").mkdir(exist_ok=True)
    run(["tar", "-C", root / "opt", "-xf", archive])
    return Path("/opt", NAME, NAME)


def install_appimage(root: Path, _inside: list[str | Path]) -> Path:
    """Unpack the AppImage's file system, as its runtime does where FUSE is missing; return AppRun.

    Raises:
        PackagingError: The file system was not built.
    """
    if not IMAGE.exists():
        raise PackagingError(f"{IMAGE.name} is not here; build.py appimage makes it")
    place = Path("/opt", "GGUF_Explorer.AppDir")
    unpack: list[str | Path] = [
        "-no-progress",
        "-quiet",
        "-dest",
        root / str(place).lstrip("/"),
        IMAGE,
    ]
    (root / "opt").mkdir(exist_ok=True)
    run([tool("unsquashfs", "squashfs-tools"), *unpack])
    return place / "AppRun"


INSTALLERS = {
    "wheel": install_wheel,
    "pipx": install_by_pipx,
    "frozen": install_frozen,
    "appimage": install_appimage,
}


def try_package(package: str, base: Path, model: Path) -> None:
    """Install one package on a clean system, and start it.

    Raises:
        PackagingError: Something is not as promised.
    """
    from proof import Started, prove_commands, prove_window  # noqa: PLC0415 - --help needs none

    root = fresh_copy(base, model)
    try:
        install_libraries(root, package)
        inside = enter(root, f"{USER_ID}:{USER_ID}", f"/home/{USER}")
        command = INSTALLERS[package](root, inside)
        program = Started(f"clean-{package}", [*inside, command], root / "home" / USER)
        shown = Path("/models", model.name)
        prove_commands(program, shown)
        prove_window(program, shown)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """Try what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="try_clean.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(INSTALLERS))
    parser.add_argument("--base", type=Path, default=BASE)
    parser.add_argument("--model", type=Path, help="the demo model, if it is left out")
    options = parser.parse_args(arguments)
    if unknown := set(options.packages) - set(INSTALLERS):
        parser.error(f"there is no package {', '.join(unknown)}")
    if os.name != "posix" or os.geteuid() != 0:
        fail("only root may mount and change the root folder; start this with sudo")
    from explorer.paths import demo_model  # noqa: PLC0415 - --help needs none of it

    try:
        make_base(options.base)
        model = demo_model() if options.model is None else options.model.absolute()
        for package in options.packages or INSTALLERS:
            say(f"== {package} on a clean Debian 12")
            try_package(package, options.base, model)
    except PackagingError as error:
        fail(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
