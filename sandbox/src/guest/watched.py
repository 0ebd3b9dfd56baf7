"""Runs a program of Python, and ends its group when its parent ends: the arguments are PARENT PROGRAM ARGUMENTS."""

import os, runpy, signal, sys, threading, time

parent = int(sys.argv[1])


def watch():
    while os.getppid() == parent:
        time.sleep(0.25)
    os.killpg(0, signal.SIGKILL)


threading.Thread(target=watch, daemon=True).start()
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
