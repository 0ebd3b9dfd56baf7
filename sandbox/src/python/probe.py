"""Says where a Python lies, in one line of JSON: asked of an interpreter before it is trusted with anything."""

import json, os, site, sys, sysconfig

paths = [path for path in sys.path if path]
paths += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
paths += site.getsitepackages() + [sysconfig.get_config_var("LIBDIR"), sys.executable, os.path.realpath(sys.executable)]
# A virtual environment is known by the file beside its interpreter's folder.
paths += [os.path.join(sys.prefix, "pyvenv.cfg")]
known = sorted({path for path in paths if path})
print(json.dumps({"executable": sys.executable, "version": list(sys.version_info[:2]), "paths": known}))
