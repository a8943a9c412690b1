"""As Steady.java, by kazoo: clients with one session each, which hold an ephemeral znode, a lock and watches, take turns with
another lock, and write. The arguments, what is said on the standard input, and the answers are the same."""
import logging
import random
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

GROUP = 4  # sessions that share a lock
connect, name, sessions, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) / 1000
logging.basicConfig(format="%(asctime)s %(threadName)s %(message)s")
timeout = int(sys.argv[5]) / 1000
threading.stack_size(512 << 10)
end = threading.Event()
longest = [0]  # milliseconds


class Group:
    def __init__(self, first, path):
        self.path, self.count, self.holders, self.lock = path, 0, 0, threading.Lock()
        first.zk.create(path, b"0")


class Session:
    def __init__(self, root):
        self.root, self.wrong, self.states, self.names = root, [], [], []
        self.counts = self.turns = self.beats = self.unsure = 0
        self.late, self.below, self.seen = [], [], []
        # Many that try again at once keep each other from it, in one process with one lock.
        retry = dict(max_tries=-1, delay=0.05, backoff=1.5, max_delay=2, max_jitter=0.4)
        zk = self.zk = KazooClient(hosts=connect, timeout=timeout, connection_retry=KazooRetry(**retry), command_retry=KazooRetry(**retry))
        zk.add_listener(self.states.append)
        zk.start(120)
        self.id = zk.client_id[0]
        for path in ("", "/items", "/watched"):
            zk.create(root + path, b"")
        for path in ("/counter", "/beat"):
            zk.create(root + path, b"0")
        zk.create(root + "/mine", b"", ephemeral=True)
        self.lock = zk.Lock(root + "/lock", name)
        self.lock.acquire()
        # kazoo's plain watches end with a connection.
        zk.DataWatch(root + "/late", lambda data, stat, event: stat and self.late.append(stat.czxid))
        zk.ChildrenWatch(root + "/watched", lambda children: self.below.append(len(children)))

    def begin(self, group, watched):
        self.group, self.watched = group, watched
        self.zk.DataWatch(watched.root + "/beat", lambda data, stat, event: self.seen.append(stat.version))

    def run(self):
        try:
            time.sleep(random.uniform(0, pause))
            step = 0
            while not end.is_set():
                self.count()
                (self.item, self.beat, self.turn)[step % 3]()
                step += 1
                time.sleep(random.uniform(0.5, 1.5) * pause)
            self.surely_create(self.root + "/late")
        except Exception:
            self.wrong.append(traceback.format_exc().replace("\n", " "))

    def again(self, call):
        while True:
            try:
                return call()
            except (ConnectionLoss, KazooTimeoutError):
                time.sleep(0.02)

    def fresh(self, read):
        def both():
            self.zk.sync("/")
            return read()
        return self.again(both)

    def surely_create(self, path):
        try:
            self.zk.create(path, b"")
        except ConnectionLoss:
            if not self.fresh(lambda: self.zk.exists(path)):
                self.surely_create(path)

    def surely_delete(self, path):
        def call():
            try:
                self.zk.delete(path)
            except NoNodeError:
                pass  # an attempt before has deleted it
        self.again(call)

    def took(self, began):
        longest[0] = max(longest[0], int((time.monotonic() - began) * 1000))

    def count(self):
        began = time.monotonic()
        try:
            self.zk.set(self.root + "/counter", b"%d" % (self.counts + 1), self.counts)
            self.counts += 1
        except ConnectionLoss:
            self.unsure += 1
            found = int(self.fresh(lambda: self.zk.get(self.root + "/counter"))[0])
            if found not in (self.counts, self.counts + 1):
                self.wrong.append("the counter went from %d to %d" % (self.counts, found))
            self.counts = found
        self.took(began)

    def item(self):
        began = time.monotonic()
        try:
            self.names.append(self.zk.create(self.root + "/items/i-", b"%d" % len(self.names), sequence=True))
        except ConnectionLoss:
            self.unsure += 1
            there = sorted(self.fresh(lambda: self.zk.get_children(self.root + "/items")))
            if len(there) > len(self.names):
                self.names.append(self.root + "/items/" + there[-1])
        self.took(began)

    def beat(self):
        self.surely_create("%s/watched/%d" % (self.root, self.beats))
        self.again(lambda: self.zk.set(self.root + "/beat", b"%d" % self.beats))
        self.beats += 1

    def turn(self):
        """Waits for the lock, and adds one to what only its holder may write."""
        group, prefix, mine = self.group, "%x-" % self.id, None
        while mine is None:
            try:
                mine = self.zk.create(group.path + "/" + prefix, b"", ephemeral=True, sequence=True)
            except ConnectionLoss:
                self.unsure += 1
                for place in self.fresh(lambda: self.zk.get_children(group.path)):
                    if place.startswith(prefix):
                        mine = group.path + "/" + place
        number = mine[-10:]
        while True:
            places = self.again(lambda: self.zk.get_children(group.path))
            own = [place for place in places if place.startswith(prefix)]
            if len(own) != 1:
                self.wrong.append("it has the places %s in the line of the lock" % own)
                return
            ahead = max((place for place in places if place[-10:] < number), key=lambda place: place[-10:], default=None)
            if ahead is None:
                break
            gone = threading.Event()  # kazoo calls the watch when the connection ends, too
            if self.again(lambda: self.zk.exists(group.path + "/" + ahead, lambda event: gone.set())) and not gone.wait(180):
                self.wrong.append("nothing was heard of the end of " + ahead)
        with group.lock:
            group.holders += 1
            if group.holders != 1:
                self.wrong.append("two hold the lock")
        # What the holder before has written shows: its place's end, which has been seen, came after that.
        found = int(self.again(lambda: self.zk.get(group.path))[0])
        if found != group.count:
            self.wrong.append("the lock's znode has %d after %d turns" % (found, group.count))
        group.count = found + 1
        self.again(lambda: self.zk.set(group.path, b"%d" % (found + 1)))
        with group.lock:
            group.holders -= 1
        self.surely_delete(mine)
        self.turns += 1

    def verify(self):
        zk, root, wrong = self.zk, self.root, self.wrong
        counter, stat = self.fresh(lambda: zk.get(root + "/counter"))
        if int(counter) != self.counts or stat.version != self.counts:
            wrong.append("the counter is %s of version %d after %d writes" % (counter, stat.version, self.counts))
        there = sorted(self.again(lambda: zk.get_children(root + "/items")))
        if [root + "/items/" + t for t in there] != self.names:
            wrong.append("%d items instead of %d, or others" % (len(there), len(self.names)))
        for i in range(0, len(there), 50):
            data = self.again(lambda: zk.get(root + "/items/" + there[i]))[0]
            if int(data) != i:
                wrong.append("item %d has %s" % (i, data))
        mine = self.again(lambda: zk.exists(root + "/mine"))
        if mine is None or mine.owner_session_id != self.id:
            wrong.append("the ephemeral znode is %s" % (mine,))
        holders = self.again(self.lock.contenders)
        if holders != [name] or not self.lock.is_acquired:
            wrong.append("the lock is held by %s" % holders)
        if zk.client_id[0] != self.id or KazooState.LOST in self.states:
            wrong.append("session %x became %x; states %s" % (self.id, zk.client_id[0], self.states))
        children = len(self.again(lambda: zk.get_children(root + "/watched")))
        version = self.again(lambda: zk.exists(self.watched.root + "/beat")).version
        for _ in range(2400):
            if self.late and self.below[-1] == children and self.seen[-1] == version:
                break
            time.sleep(0.05)
        if len(set(self.late)) != 1 or children != self.beats or self.below[-1] != children or self.seen[-1] != version:
            wrong.append("watches saw %s, at last %d children of %d, and version %d of %d" % (self.late, self.below[-1], self.beats, self.seen[-1], version))
        if sorted(set(self.seen)) != self.seen:
            wrong.append("a watch saw the versions %s" % self.seen)


everybody = [Session("/steady-%s-%d" % (name, i)) for i in range(sessions)]
for i, session in enumerate(everybody):
    if i % GROUP == 0:
        shared = Group(session, "/steady-%s-lock-%d" % (name, i // GROUP))
    session.begin(shared, everybody[(i + 1) % sessions])
threads = [threading.Thread(target=session.run) for session in everybody]
for thread in threads:
    thread.start()
print("ready", flush=True)
while sys.stdin.readline() == "mark\n":
    print("longest %d" % longest[0], flush=True)
    longest[0] = 0
end.set()
for thread in threads:
    thread.join()
for session in everybody:
    session.verify()
told = "%d sessions, %d counts, %d items, %d beats, %d turns with a lock, %d unsure, %d times suspended" % (
    sessions, *(sum(f(s) for s in everybody) for f in (
        lambda s: s.counts, lambda s: len(s.names), lambda s: s.beats, lambda s: s.turns, lambda s: s.unsure,
        lambda s: s.states.count(KazooState.SUSPENDED))))
wrong = ["%s: %s" % (s.root, w) for s in everybody for w in s.wrong]
print("failed: %s; %s" % (told, "; ".join(wrong)) if wrong else "done: " + told, flush=True)
for session in everybody:
    session.zk.stop()
    session.zk.close()
