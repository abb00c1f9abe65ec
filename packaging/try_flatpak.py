"""Build and start the Flatpak on a stand-in for its runtime, made of Debian 13's packages.

  sudo python3 packaging/try_flatpak.py [--base FOLDER] [--model PATH]

Where Flathub cannot be reached, this has the manifest's runtime and SDK by their own names, with
the runtime's Python and the libraries that packaging/README.md names. BASE is a file system made
by debootstrap; it is made if it is not there, and never changed. flatpak-builder and the program
run as a user who is not root, in an empty home folder. Build the wheel before. Screenshots are in
build/screenshots/: look at them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from flatpak import MANIFEST, PYTHON, builder_command, fetch_wheels
from proof import Started, files_of, new_home, prove_commands, prove_window
from run import OFFSCREEN_LIBRARIES, WINDOW_LIBRARIES
from tools import APP_ID, BUILD, PackagingError, fail, new_folder, run, say, tool
from try_clean import USER_ID, make_base

from explorer.paths import demo_model

BASE = BUILD / "debian-13"
OWN = Path(".var", "app", APP_ID)  # the program's folder in a home folder
RELEASE = "trixie"
INCLUDED = [
    *("python3", "python3-pip"),
    *("appstream-util", "librsvg2-common"),  # flatpak-builder calls appstream-compose
    *{**OFFSCREEN_LIBRARIES, "libglib-2.0.so.0": "libglib2.0-0t64"}.values(),  # its name in 13
    *WINDOW_LIBRARIES.values(),
]
DEBIAN_SCHEME = "prefix_scheme = 'posix_local'"  # only Debian's pip puts things below local/
SCHEME = "prefix_scheme = 'posix_prefix'"
CUSTOMIZE = f"import sys\nsys.path.insert(-1, '/app/lib/python{PYTHON}/site-packages')\n"
METADATA = """\
[Runtime]
name={name}
runtime={runtime}/{machine}/{branch}
sdk={sdk}/{machine}/{branch}

[Environment]
QT_PLUGIN_PATH=/app/lib/plugins:/usr/share/runtime/lib/plugins
"""
"""What KDE's runtime says of itself, as far as it matters here."""
SESSION = """\
user=$1; shift
mount -t tmpfs tmpfs /run
mknod -m 666 /run/fuse c 10 229  # whatever rights it has outside
mount --bind /run/fuse /dev/fuse
export XDG_RUNTIME_DIR=/run/user/$user
install -d -m 700 -o "$user" "$XDG_RUNTIME_DIR"
exec 3>&1 4>&2 >/dev/null 2>&1
exec setpriv --reuid="$user" --regid="$user" --clear-groups dbus-run-session -- sh -c '
    export DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS
    bus=org.freedesktop.DBus
    dbus-send --print-reply --dest=$bus / $bus.StartServiceByName \\
        string:org.freedesktop.portal.Desktop uint32:0
    exec "$@" >&3 2>&4 3>&- 4>&-' sh "$@"
"""
"""Runs a command as in a desktop's session, with portals; its silent bus is the system's too."""
PROBE = """\
import json, os, pathlib, socket, sys
model, secret = map(pathlib.Path, sys.argv[1:])
def refusal(path, mode):
    try:
        path.open(mode).close()
    except OSError as error:
        return error.strerror
print(json.dumps({
    "networks": [name for _, name in socket.if_nameindex()],
    "to write beside the model": refusal(model.with_name("new"), "w"),
    "to change the model": refusal(model, "r+"),
    "to read the rest of the home folder": refusal(secret, "r"),
    "plug-ins": os.environ["QT_PLUGIN_PATH"],
}))
"""
EXPECTED = {
    "networks": ["lo"],
    "to write beside the model": "Read-only file system",
    "to change the model": "Read-only file system",
    "to read the rest of the home folder": "No such file or directory",
    "plug-ins": "",
}


def export_runtime(base: Path, name: str, repository: Path, manifest: dict[str, Any]) -> None:
    """Put a Debian into a repository of Flatpaks, as a runtime.

    Raises:
        PackagingError: That Debian's Python is not as expected, or flatpak failed.
    """
    say(f"making a stand-in for {name}")
    folder = new_folder(repository.with_name(name))
    files, branch = folder / "usr", manifest["runtime-version"]
    (folder / "files").mkdir()  # flatpak asks for it, and takes the other
    run(["cp", "-a", "--reflink=auto", base / "usr", files])
    run(["cp", "-a", "--reflink=auto", base / "etc", files / "etc"])
    (files / "bin" / "ldconfig").symlink_to("../sbin/ldconfig")  # where flatpak looks for it
    library = files / "lib" / f"python{PYTHON}"
    installing, customize = library / "sysconfig" / "__init__.py", library / "sitecustomize.py"
    text = installing.read_text(encoding="utf-8") if installing.exists() else ""
    if DEBIAN_SCHEME not in text:
        raise PackagingError(f"{base} has no Python {PYTHON}, or one that Debian has changed")
    installing.write_text(text.replace(DEBIAN_SCHEME, SCHEME), encoding="utf-8")
    customize.unlink(missing_ok=True)  # a link
    customize.write_text(CUSTOMIZE, encoding="utf-8")
    about = METADATA.format(name=name, machine=platform.machine(), branch=branch, **manifest)
    (folder / "metadata").write_text(about, encoding="utf-8")
    run([tool("flatpak", "flatpak"), "build-export", "--runtime", repository, folder, branch])
    shutil.rmtree(folder)


def make_runtimes(base: Path, manifest: dict[str, Any]) -> Path:
    """Make the stand-ins for runtime and SDK, which are the same, and return their repository."""
    repository = new_folder(BUILD / "flatpak-runtimes") / "repository"
    run([tool("ostree", "ostree"), "init", f"--repo={repository}", "--mode=bare-user-only"])
    for kind in ("runtime", "sdk"):
        export_runtime(base, manifest[kind], repository, manifest)
    run(["flatpak", "build-update-repo", repository])
    return repository


def new_user(model: Path) -> tuple[Started, Path, Path]:
    """Return the program of a user who has two models: one that it may see, and one elsewhere."""
    home = new_home("flatpak")
    seen, unseen = home / ".cache" / "llama.cpp" / model.name, home / "elsewhere" / model.name
    for path in (seen, unseen):
        path.parent.mkdir(parents=True)
        shutil.copy(model, path)
    run(["chown", "-R", f"{USER_ID}:{USER_ID}", home])
    mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", SESSION, "sh"]
    start: list[str | Path] = [*mounts, str(USER_ID), "flatpak", "run", APP_ID]
    return Started("flatpak", start, home, OWN / "cache"), seen, unseen


def install(program: Started, runtimes: Path) -> None:
    """Build the program on a repository's runtimes, and install both for the user."""
    session, work = program.command[:-3], program.home / "work"  # without "flatpak run ID"
    work.mkdir()
    os.chown(work, USER_ID, USER_ID)

    def do(*command: str | Path) -> str:
        return run([*session, *command], cwd=work, environment=program.environment)

    user = ("--user", "--noninteractive")
    do("flatpak", "remote-add", "--user", "--no-gpg-verify", "stand-ins", runtimes)
    names = do("flatpak", "remote-ls", "stand-ins", "--columns=ref").split()
    do("flatpak", "install", *user, "stand-ins", *names)
    say("building")
    do(*builder_command(work, "--user", "--disable-download"))
    do("flatpak", "remote-add", "--user", "--no-gpg-verify", "built", work / "repository")
    do("flatpak", "install", *user, "built", APP_ID)


def prove(program: Started, seen: Path, unseen: Path) -> None:
    """Look into the sandbox, and start the program.

    Raises:
        PackagingError: Something is not as promised.
    """
    before = files_of(program.home)
    start, home, environment = program.command[:-1], program.home, program.environment
    probe = [*start, "--command=python3", APP_ID, "-c", PROBE, seen, unseen]
    if (found := json.loads(run(probe, cwd=home, environment=environment))) != EXPECTED:
        raise PackagingError(f"the sandbox has {found} instead of {EXPECTED}")
    say("the sandbox has no network, and reads only what it should")
    opened = [*start, "--file-forwarding", APP_ID, "inspect", "@@", unseen, "@@"]
    run(opened, cwd=home, environment=environment)
    say("a file manager's choice is read through the document portal")
    prove_commands(program, seen)
    prove_window(program, seen)
    new = {path.relative_to(home) for path in files_of(home).keys() - before.keys()}
    if strays := [str(path) for path in new if not path.is_relative_to(OWN)]:
        raise PackagingError(f"something was written beside {OWN}: {strays}")
    say(f"all that was written lies below ~/{OWN}")


def main(arguments: list[str]) -> int:
    """Try it; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="try_flatpak.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--base", type=Path, default=BASE)
    parser.add_argument("--model", type=Path, help="the demo model, if it is left out")
    options = parser.parse_args(arguments)
    if os.name != "posix" or os.geteuid() != 0:
        fail("only root may make a file system and become another user; start this with sudo")
    try:
        model = demo_model() if options.model is None else options.model.absolute()
        make_base(options.base, RELEASE, ",".join(INCLUDED))
        manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
        fetch_wheels()
        program, seen, unseen = new_user(model)
        install(program, make_runtimes(options.base, manifest))
        prove(program, seen, unseen)
    except PackagingError as error:
        fail(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
