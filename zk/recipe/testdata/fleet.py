"""One Python member of a mixed fleet: fleet.py CONNECT UMPIRE NAME RECIPE PATH."""
import socket
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.lock import Lock

connect, umpire, name, recipe, path = sys.argv[1:]
host, port = umpire.split(":")
stream = socket.create_connection((host, int(port))).makefile("rw")


def say(line):
    """Tells the umpire, and returns whether to go on."""
    stream.write(line + "\n")
    stream.flush()
    return stream.readline().strip() == "go"


def inside(kind):
    """Is inside for a moment."""
    say("in " + kind)
    time.sleep(0.001)
    return say("out " + kind)


def fence(path, mark):
    """Counts in a znode: whoever is refused isn't alone."""
    old, stat = client.retry(client.get, path)
    mine = b"%d %s" % (int(old.split(b" ")[0]) + 1, mark.encode())
    try:
        client.retry(client.set, path, mine, stat.version)
    except BadVersionError:  # the reply to the first attempt may be lost
        now, _ = client.retry(client.get, path)
        if now != mine:
            sys.exit("fence: %r became %r, not %r" % (old, now, mine))


class SharedLock(Lock):
    """kazoo's lock, under the name that Curator sorts by."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["lock-", "__lock__"]


client = KazooClient(connect, timeout=10)
client.start(30)
say("name " + name)
more = True
if recipe == "lock":
    while more:
        lock = SharedLock(client, path)
        with lock:
            more = inside("exclusive")
elif recipe == "fenced":
    turn = 0
    while more:
        turn += 1
        with SharedLock(client, path):
            say("in exclusive")
            fence(path + "-fence", "python %d" % turn)
            more = say("out exclusive")
elif recipe == "plainlock":
    while more:
        with client.Lock(path, extra_lock_patterns=["lock-"]):
            more = inside("exclusive")
elif recipe == "election":

    def lead():
        global more
        more = inside("exclusive")

    while more:
        election = client.Election(path, name)
        election.lock = SharedLock(client, path, name)
        election.run(lead)
elif recipe in ("writer", "reader"):
    while more:
        if recipe == "writer":
            lock = client.WriteLock(path, extra_lock_patterns=["__WRIT__", "__READ__"])
        else:
            lock = client.ReadLock(path, extra_lock_patterns=["__WRIT__"])
        with lock:
            more = inside("exclusive" if recipe == "writer" else "shared")
elif recipe == "barrier":
    for turn in range(5):
        barrier = DoubleBarrier(client, "%s/%d" % (path, turn), 3)
        barrier.enter()
        barrier.leave()
    inside("together")
else:
    sys.exit("unknown recipe " + recipe)
client.stop()
client.close()
