"""Prints the paths and version of an interpreter as one line of JSON, before the sandbox uses it."""

import json, os, site, sys, sysconfig

paths = [path for path in sys.path if path]
paths += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
paths += site.getsitepackages() + [sysconfig.get_config_var("LIBDIR"), sys.executable, os.path.realpath(sys.executable)]
# An interpreter that was moved, as uv's are, has its own library here and not in LIBDIR.
paths += [os.path.join(sys.base_prefix, "lib")]
# A file beside the interpreter's folder marks a virtual environment.
paths += [os.path.join(sys.prefix, "pyvenv.cfg")]
known = sorted({path for path in paths if path})
# Without the packages of the interpreter: guests have their own, and some of these are folders of projects.
library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("LIBDIR")]
library += [os.path.join(sys.base_prefix, "lib")]
for executable in {sys.executable, getattr(sys, "_base_executable", sys.executable)}:
    library += [executable, os.path.realpath(executable)]
library = sorted({path for path in library if path})
version, platform = list(sys.version_info[:2]), sysconfig.get_platform()
told = {"executable": sys.executable, "version": version, "platform": platform, "paths": known, "library": library}
print(json.dumps(told))
