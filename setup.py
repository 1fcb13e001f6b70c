"""Builds the native kernels of src/rookery/core/kernels and the environments in C of src/rookery/envs/native/sources;
all else about the package stands in pyproject.toml.

They are one C++ source with a plain C interface, loaded with ctypes, so one build serves every Python. The width of its
vectors is fixed when it is compiled. For x86-64 there are therefore three builds, of which the widest that the
processor runs is loaded; for other machines there is one. The files are called `x86-64.so`, `x86-64-v3.so`,
`x86-64-v4.so`, or `<machine>.so`.

The environments are C, one library `twins.so` for any processor: their numbers are those of NumPy and of Gymnasium to
the last bit, so nothing is contracted or vectorized further than the C standard allows.

All are optional: without a compiler, or with one that fails, a line says so, the installation goes on, networks run in
PyTorch and environments in Python. After a change of the source, or to see what the compiler says:

    python setup.py build_ext --inplace
"""

import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

KERNELS, TWINS = Path("src/rookery/core/kernels"), Path("src/rookery/envs/native/sources")

CPP, C = ("CXX", ("c++", "g++", "clang++")), ("CC", ("cc", "gcc", "clang"))
"""Variables that name a compiler, and compilers that there may be."""

# Python's own variable for the platform that a cross-compiler builds for, such as linux-aarch64
MACHINE = os.environ.get("_PYTHON_HOST_PLATFORM", platform.machine()).rpartition("-")[2]
if MACHINE.lower() in ("x86_64", "amd64"):
    BUILDS = {name: [f"-march={name}"] for name in ("x86-64", "x86-64-v3", "x86-64-v4")}
else:
    BUILDS = {MACHINE: []}

# Nobody reads errno or the floating-point exception flags, and without them more loops become vectors.
FLOATS = ["-fno-math-errno", "-fno-trapping-math"]
COMPILE = ["-std=c++17", "-O3", "-fPIC", "-pthread", *FLOATS, "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"]
# As src/rookery/envs/native/compiler.py compiles environments of others.
COMPILE_C = ["-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", f"-I{TWINS.parent}"]
# Only what is needed: the C++ library is not.
LINK = ["-shared", "-s", "-pthread", *(["-Wl,--as-needed"] if sys.platform == "linux" else [])]


def find_compiler(variable: str, usual: tuple[str, ...]) -> list[str]:
    """The command in a variable such as CXX, else the first of the usual ones there is; empty if there is none."""
    for command in [os.environ[variable]] if os.environ.get(variable) else usual:
        if shutil.which(shlex.split(command)[0]):
            return shlex.split(command)
    return []


class BuildKernels(build_ext):
    """Compiles each variant with one call, all at once.

    The flags that Python itself was compiled with, which setuptools would add, differ from one Python to the next; with
    them, so would the numbers that networks compute.
    """

    def initialize_options(self) -> None:
        """Variants do not wait for each other."""
        super().initialize_options()
        self.parallel = True

    def get_ext_filename(self, fullname: str) -> str:
        """The name of the variant, without that of a Python."""
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extensions(self) -> None:
        """Says in one line that there is no compiler, instead of once for each variant."""
        self.command, self.c_command = find_compiler(*CPP), find_compiler(*C)
        if self.command:
            super().build_extensions()
        else:
            self.warn("no C++ compiler was found, so there are no native kernels: networks will run in PyTorch")

    def build_extension(self, ext: Extension) -> None:
        """Compiles one variant; the last line about one that fails says why."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # if this fails, a library of an older source is not taken for the new one
        user = [flag for name in ("CXXFLAGS", "LDFLAGS") for flag in shlex.split(os.environ.get(name, ""))]
        options = [*ext.extra_compile_args, *ext.sources, *LINK, *ext.extra_link_args]
        compiler = [*self.command, *user] if ext.language == "c++" else self.c_command
        if not compiler:
            raise CompileError("no C compiler was found: environments will run in Python")
        command = [*compiler, *options, "-o", str(target)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.announce("\n".join([shlex.join(command), *result.stdout.splitlines()]), logging.INFO)
        if result.returncode:
            reasons = [line for line in result.stdout.splitlines() if "error" in line]
            raise CompileError(reasons[0] if reasons else f"{compiler[0]} ended with {result.returncode}")

    def copy_extensions_to_source(self) -> None:
        """Puts what was built beside the source, and takes away what was built before."""
        for old in (*KERNELS.glob("*.so"), *TWINS.glob("*.so")):
            old.unlink()
        super().copy_extensions_to_source()


class PlatformWheel(bdist_wheel):
    """A wheel for every Python 3 of one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """No Python and no ABI: the kernels know neither."""
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": PlatformWheel},
    ext_modules=[
        Extension(
            f"rookery.core.kernels.{name}",
            [(KERNELS / "kernels.cpp").as_posix()],
            depends=[path.as_posix() for path in sorted(KERNELS.glob("*.h"))],
            extra_compile_args=[*COMPILE, *flags],
            language="c++",
            optional=True,
        )
        for name, flags in BUILDS.items()
    ]
    + [
        Extension(
            "rookery.envs.native.sources.twins",
            sources,
            depends=[(TWINS.parent / "rookery_env.h").as_posix()],
            extra_compile_args=COMPILE_C,
            extra_link_args=["-lm"],
            language="c",
            optional=True,
        )
        for sources in [sorted(source.as_posix() for source in TWINS.glob("*.c"))]
        if sources
    ],
)
