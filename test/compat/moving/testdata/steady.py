"""As Steady.java, by kazoo: a client that holds one session with an ephemeral znode, a lock and watches, and writes until a
line comes on its standard input. Then it says "done" with what it has seen, or "failed" and why."""
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

connect, name = sys.argv[1:3]
states, late, below = [], [], []
zk = KazooClient(hosts=connect, timeout=20, connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1, max_jitter=0.1))
zk.add_listener(states.append)
zk.start(60)
session = zk.client_id[0]
root = "/steady-" + name
for path in ("", "/items", "/watched"):
    zk.create(root + path, b"")
zk.create(root + "/counter", b"0")
zk.create(root + "/mine", b"", ephemeral=True)
lock = zk.Lock(root + "/lock", name)
lock.acquire()
zk.DataWatch(root + "/late", lambda data, stat, event: stat and late.append(stat.czxid))  # kazoo's plain watches end with a connection
zk.ChildrenWatch(root + "/watched", lambda children: below.append(len(children)))
end = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), end.set()), daemon=True).start()
print("ready", flush=True)
wrote = unsure = 0
names = []


def again(call):
    while True:
        try:
            return call()
        except (ConnectionLoss, KazooTimeoutError):
            time.sleep(0.02)


def fresh(read):
    def both():
        zk.sync("/")
        return read()
    return again(both)


while not end.is_set():
    try:
        zk.set(root + "/counter", b"%d" % (wrote + 1), wrote)
        wrote += 1
    except ConnectionLoss:
        unsure += 1
        wrote = int(fresh(lambda: zk.get(root + "/counter"))[0])
    try:
        names.append(zk.create(root + "/items/i-", b"%d" % len(names), sequence=True))
    except ConnectionLoss:
        unsure += 1
        there = sorted(fresh(lambda: zk.get_children(root + "/items")))
        if len(there) != len(names):
            names.append(root + "/items/" + there[-1])
    time.sleep(0.005)

again(lambda: zk.create(root + "/late", b""))
for i in range(20):
    zk.create("%s/watched/%d" % (root, i), b"")
zk.sync("/")
time.sleep(0.5)
wrong = []
counter, stat = zk.get(root + "/counter")
if int(counter) != wrote or stat.version != wrote:
    wrong.append("the counter is %s of version %d after %d writes" % (counter, stat.version, wrote))
there = sorted(zk.get_children(root + "/items"))
if [root + "/items/" + t for t in there] != names:
    wrong.append("%d items instead of %d, or others" % (len(there), len(names)))
mine = zk.exists(root + "/mine")
if mine is None or mine.owner_session_id != session:
    wrong.append("the ephemeral znode is %s" % (mine,))
holders = lock.contenders()
if holders != [name] or not lock.is_acquired:
    wrong.append("the lock is held by %s" % holders)
if zk.client_id[0] != session or KazooState.LOST in states:
    wrong.append("session %x became %x; states %s" % (session, zk.client_id[0], states))
if not late or len(set(late)) != 1 or below[-1] != 20:
    wrong.append("a watch has seen %s; children seen: %s" % (late, below))
lock.release()
zk.stop()
told = "%d counts, %d items, %d unsure, %d times suspended" % (wrote, len(names), unsure, states.count(KazooState.SUSPENDED))
print("failed: %s; %s" % (told, "; ".join(wrong)) if wrong else "done: " + told, flush=True)
