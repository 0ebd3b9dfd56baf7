"""The package and its process: exit, fork, signals, subinterpreters, what an import takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from fleet import ROOT

HEAD = """
import os, signal, sys, threading, time
# A shell that starts the tests in the background ignores this signal, and the child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = [{src!r}, {tests!r}]
from flows import chain, llm, ask, template
from tidemill import Engine
"""


def script(body: str) -> list[str]:
    head = HEAD.format(src=str(ROOT / "python" / "src"), tests=str(ROOT / "python" / "tests"))
    return [sys.executable, "-c", head + textwrap.dedent(body)]


def said(body: str, status: int = 0) -> str:
    """Runs a program to its end, and returns what it has written."""
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_interpreter_ends_with_runs_under_way(kind: str) -> None:
    text = said(f"""
        engine = Engine()
        begun = threading.Event()

        @engine.node("llm")
        {kind} model(ctx):
            begun.set()
            time.sleep(0.1)
            while not ctx.cancelled:
                {"await __import__('asyncio').sleep(0.01)" if kind == "async def" else "time.sleep(0.01)"}

        runs = [engine.run(chain(llm()), {{"q": "x"}}) for _ in range(20)]
        iterator = iter(runs[0])
        next(iterator)
        assert begun.wait(60)
        print("ends")
    """)
    assert text.strip() == "ends"


def test_the_interpreter_ends_although_a_function_hangs() -> None:
    began = time.monotonic()
    text = said("""
        engine = Engine()
        begun = threading.Event()

        @engine.node("llm")
        def model(ctx):
            begun.set()
            time.sleep(3600)

        engine.run(chain(llm()), {"q": "x"})
        assert begun.wait(60)
        print("ends")
    """)
    assert text.strip() == "ends"
    assert time.monotonic() - began < 60


def test_an_exception_ends_the_interpreter_with_its_own_traceback() -> None:
    text = said(
        """
        engine = Engine()
        run = engine.run(chain(ask(), outputs={}))
        raise KeyError("mine")
        """,
        status=1,
    )
    assert "KeyError: 'mine'" in text
    assert "Fatal" not in text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_is_refused_with_a_sentence_and_ends() -> None:
    text = said("""
        import warnings
        # Python 3.12 and later say that a fork with threads is dangerous.
        warnings.simplefilter("ignore", DeprecationWarning)
        flow = chain(template("greet"), outputs={"text": "greet.output"})
        engine = Engine()
        run = engine.run(flow, {"q": "x"})
        run.result()
        child = os.fork()
        if child == 0:
            again = lambda: engine.run(flow, {"q": "y"})
            for use in (again, lambda: Engine().start(), run.show, lambda: next(iter(run))):
                try:
                    use()
                except RuntimeError as error:
                    assert "forked" in str(error), error
                else:
                    raise AssertionError("not refused")
            print("refused", flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert engine.run(flow, {"q": "z"}).result() == {"text": "z"}
        print("the parent goes on")
    """)
    assert text.split() == ["refused", "the", "parent", "goes", "on"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_forks_before_its_first_engine_may_use_one_on_both_sides() -> None:
    text = said("""
        child = os.fork()
        flow = chain(template("greet"), outputs={"text": "greet.output"})
        with Engine() as engine:
            assert engine.run(flow, {"q": "z"}).result() == {"text": "z"}
        if child:
            _, status = os.waitpid(child, 0)
            assert status == 0, status
            print("both")
    """)
    assert text.strip() == "both"


@pytest.mark.parametrize("how", ["for event in run: pass", "run.result()"])
def test_ctrl_c_ends_a_wait(how: str) -> None:
    program = script(f"""
        engine = Engine()
        run = engine.run(chain(ask(), llm(), outputs={{}}) if False else chain(ask(), outputs={{}}))
        import tidemill
        while run.show()["status"] != "paused":
            time.sleep(0.01)
        threading.Timer(0.3, lambda: print("waits", flush=True)).start()
        try:
            try:
                {how}
            except tidemill.RunPaused:
                for event in run: pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "waits"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline().strip() == "interrupted"
        assert process.wait(60) == 0


def test_a_subinterpreter_is_refused_with_a_sentence() -> None:
    modules = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    text = said(f"""
        import {modules} as interpreters
        inner = interpreters.create()
        source = '''
        import sys
        import os
        sys.path[:0] = {{path}}
        try:
            from tidemill import Engine
        except ImportError as error:
            os.write(1, ("refused: " + str(error)).encode())
        '''
        import textwrap
        run = getattr(interpreters, "run_string", None) or interpreters.exec
        run(inner, textwrap.dedent(source).replace("{{path}}", repr(sys.path)))
    """)
    assert "refused:" in text
    assert "subinterpreter" in text


def test_free_threaded_python_is_refused_with_a_sentence() -> None:
    if sys.version_info >= (3, 15):
        pytest.skip("this version loads modules with the stable ABI")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1\n"
            f"sys.path.insert(0, {str(ROOT / 'python' / 'src')!r})\nimport tidemill",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "does not run on free-threaded Python" in done.stderr


def test_the_log_is_quiet_unless_it_is_asked_for() -> None:
    body = """
        import tidemill
        {first}
        with Engine() as engine:
            engine.run(chain(template("greet"), outputs={{}}), {{"q": "x"}}).result()
        {then}
    """
    assert said(body.format(first="", then="")).strip() == ""
    assert "worker started" in said(body.format(first="tidemill.log('info')", then=""))
    refused = "\n        ".join(
        ["try: tidemill.log('info')", "except RuntimeError as error: print(error)", "else: raise AssertionError"]
    )
    assert "before the first engine" in said(body.format(first="", then=refused))
    wrong = "\n        ".join(["try: tidemill.log('loud')", "except ValueError as error: print(error)"])
    assert "loud" in said(body.format(first=wrong, then=""))


def test_a_log_that_is_not_written_to_a_terminal_has_no_colors() -> None:
    text = said("""
        import tidemill
        tidemill.log("info", "text")
        Engine().start().close()
    """)
    assert "worker started" in text
    assert "\x1b" not in text


def test_functions_that_were_never_called_are_no_failures_at_the_end() -> None:
    # One thread, whose function does not end: the other call waits for it when the functions are closed.
    text = said("""
        engine = Engine(threads=1)
        begun = threading.Event()

        @engine.node("llm")
        def model(ctx):
            begun.set()
            while not ctx.cancelled:
                time.sleep(0.01)

        runs = [engine.run(chain(llm()), {"q": "x"}) for _ in range(2)]
        assert begun.wait(60)
        while any(run.show()["nodes"][1]["status"] != "running" for run in runs):
            time.sleep(0.01)
        engine._executors.close()
        for run in runs:
            try:
                run.result(timeout=0.5)
            except TimeoutError:
                print("goes on")
        print("ends")
    """)
    assert text.splitlines() == ["goes on", "goes on", "ends"]


def test_threads_end_with_their_engine(tmp_path: Path) -> None:
    text = said("""
        def threads():
            return len(os.listdir("/proc/self/task"))

        def once():
            with Engine() as engine:
                engine.node("llm")(lambda ctx: {"text": "x"})
                engine.run(chain(llm()), {"q": "x"}).result()

        once()
        end = time.monotonic() + 60
        before = threads()
        for _ in range(5):
            once()
        while threads() > before and time.monotonic() < end:
            time.sleep(0.05)
        print(threads() <= before)
    """)
    assert text.strip() == "True"


def test_an_engine_that_the_program_no_longer_holds_ends_its_threads() -> None:
    text = said("""
        import gc
        def threads():
            return len(os.listdir("/proc/self/task"))

        def once():
            engine = Engine()
            engine.node("llm")(lambda ctx: {"text": "x"})
            engine.run(chain(llm()), {"q": "x"}).result()

        once()
        gc.collect()
        time.sleep(1)
        before = threads()
        for _ in range(5):
            once()
        gc.collect()
        end = time.monotonic() + 60
        while threads() > before and time.monotonic() < end:
            time.sleep(0.05)
        print(threads() <= before)
    """)
    assert text.strip() == "True"
