import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Clients with one session each, which hold an ephemeral znode, a place in a line and watches, take turns with a lock, and
 * write. The arguments are the connect string, a name, the number of sessions, the mean pause between two steps of a
 * session, and the sessions' timeout, both in milliseconds. "mark" on the standard input asks for the longest time that a write took since the last
 * "mark"; "end" ends everything, and the answer is "done" with what was seen, or "failed" and why.
 */
public class Steady {
    static final int GROUP = 4; // sessions that share a lock
    static final AtomicLong longest = new AtomicLong();
    static final ScheduledExecutorService later = Executors.newSingleThreadScheduledExecutor(r -> {
        Thread t = new Thread(r);
        t.setDaemon(true);
        return t;
    });
    static volatile boolean end;
    static int pause;
    static int timeout;

    public static void main(String[] args) throws Exception {
        int sessions = Integer.parseInt(args[2]);
        pause = Integer.parseInt(args[3]);
        timeout = Integer.parseInt(args[4]);
        Group[] groups = new Group[(sessions + GROUP - 1) / GROUP];
        Session[] all = new Session[sessions];
        for (int i = 0; i < sessions; i++) {
            all[i] = new Session(args[0], "/steady-" + args[1] + "-" + i);
        }
        for (int i = 0; i < sessions; i++) {
            if (i % GROUP == 0) {
                groups[i / GROUP] = new Group(all[i], "/steady-" + args[1] + "-lock-" + i / GROUP);
            }
            all[i].begin(groups[i / GROUP], all[(i + 1) % sessions]);
        }
        List<Thread> threads = new ArrayList<>();
        for (Session s : all) {
            Thread t = new Thread(s);
            t.start();
            threads.add(t);
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); "mark".equals(line); line = in.readLine()) {
            System.out.println("longest " + longest.getAndSet(0));
        }
        end = true;
        for (Thread t : threads) {
            t.join();
        }
        StringBuilder wrong = new StringBuilder();
        int[] told = new int[7];
        for (Session s : all) {
            s.verify();
        }
        for (Session s : all) {
            if (s.wrong.length() > 0) {
                wrong.append("; ").append(s.root).append(s.wrong);
            }
            int[] mine = {s.counts, s.names.size(), s.made.size(), s.beats, s.turns, s.unsure, s.lost.get()};
            for (int i = 0; i < told.length; i++) {
                told[i] += mine[i];
            }
            s.zk.close();
        }
        System.out.printf("%s%d sessions, %d counts, %d items, %d events, %d beats, %d turns with a lock, %d unsure, %d connections lost%s%n",
            wrong.length() == 0 ? "done: " : "failed: ", sessions, told[0], told[1], told[2], told[3], told[4], told[5], told[6], wrong);
    }

    /** Sessions that share a lock. Who holds it adds one to what is in the lock's znode. */
    static class Group {
        final String path;
        final AtomicInteger holders = new AtomicInteger();
        int count; // guarded by the lock that is tried

        Group(Session first, String path) throws Exception {
            this.path = path;
            first.create(path, "0", CreateMode.PERSISTENT);
        }
    }

    interface Action<T> {
        T run() throws KeeperException, InterruptedException;
    }

    static class Session implements Runnable {
        final String root;
        final ZooKeeper zk;
        final long id;
        final AtomicInteger expired = new AtomicInteger();
        final AtomicInteger lost = new AtomicInteger();
        final AtomicInteger late = new AtomicInteger();
        final List<String> names = new ArrayList<>();
        final Map<String, Boolean> made = new HashMap<>(); // znodes below the persistent watch, and if it is sure that they were heard of
        final Map<String, Integer> heard = Collections.synchronizedMap(new HashMap<>());
        final StringBuffer wrong = new StringBuffer();
        Group group;
        Session watched;
        volatile int seen = -1; // version of the beat that is watched
        volatile int spurious;
        String place;
        int counts;
        int beats;
        int turns;
        int unsure;
        int newest = -1; // of the znodes that were heard of

        Session(String connect, String root) throws Exception {
            this.root = root;
            CountDownLatch connected = new CountDownLatch(1);
            zk = new ZooKeeper(connect, timeout, e -> {
                if (e.getState() == Watcher.Event.KeeperState.SyncConnected) {
                    connected.countDown();
                } else if (e.getState() == Watcher.Event.KeeperState.Expired) {
                    expired.incrementAndGet();
                } else if (e.getState() == Watcher.Event.KeeperState.Disconnected) {
                    lost.incrementAndGet();
                }
            });
            connected.await();
            id = zk.getSessionId();
            for (String path : new String[] {"", "/items", "/watched"}) {
                create(root + path, "", CreateMode.PERSISTENT);
            }
            for (String path : new String[] {"/counter", "/beat"}) {
                create(root + path, "0", CreateMode.PERSISTENT);
            }
            create(root + "/mine", "", CreateMode.EPHEMERAL);
            place = create(root + "/line-", "", CreateMode.EPHEMERAL_SEQUENTIAL);
            zk.exists(root + "/late", e -> {
                if (e.getType() == Watcher.Event.EventType.NodeCreated) {
                    late.incrementAndGet();
                }
            });
            zk.addWatch(root + "/watched", this::below, AddWatchMode.PERSISTENT_RECURSIVE);
        }

        void begin(Group group, Session watched) {
            this.group = group;
            this.watched = watched;
            look(false);
        }

        /** Is told of what happens below the persistent watch. */
        void below(WatchedEvent e) {
            if (e.getType() == Watcher.Event.EventType.None) {
                return;
            }
            if (heard.merge(e.getType() + " " + e.getPath(), 1, Integer::sum) > 1) {
                wrong.append("; it heard twice of " + e);
            }
            if (e.getType() == Watcher.Event.EventType.NodeCreated) {
                int n = Integer.parseInt(e.getPath().substring(e.getPath().lastIndexOf('/') + 1));
                if (n <= newest) {
                    wrong.append("; it heard of " + e + " after " + newest);
                }
                newest = n;
            } else if (e.getType() != Watcher.Event.EventType.NodeDeleted) {
                wrong.append("; it heard of " + e);
            }
        }

        /** Reads another session's beat, and again each time when the watch fires. */
        void look(boolean fired) {
            zk.getData(watched.root + "/beat", e -> {
                if (e.getType() != Watcher.Event.EventType.None) {
                    look(true);
                }
            }, (rc, path, ctx, data, stat) -> {
                if (rc == KeeperException.Code.CONNECTIONLOSS.intValue()) {
                    later.schedule(() -> look(fired), 20, TimeUnit.MILLISECONDS);
                } else if (rc != 0) {
                    wrong.append("; the beat can't be read: " + KeeperException.Code.get(rc));
                } else {
                    if (stat.getVersion() < seen) {
                        wrong.append("; the beat went from " + seen + " to " + stat.getVersion());
                    }
                    spurious += fired && stat.getVersion() == seen ? 1 : 0;
                    seen = stat.getVersion();
                }
            }, null);
        }

        @Override
        public void run() {
            try {
                Thread.sleep(ThreadLocalRandom.current().nextInt(pause));
                for (int step = 0; !end; step++) {
                    count();
                    switch (step % 3) {
                        case 0 -> item();
                        case 1 -> beat();
                        default -> turn();
                    }
                    Thread.sleep(pause / 2 + ThreadLocalRandom.current().nextInt(pause));
                }
                again(() -> create(root + "/late", "", CreateMode.PERSISTENT));
            } catch (Exception e) {
                java.io.StringWriter trace = new java.io.StringWriter();
                e.printStackTrace(new java.io.PrintWriter(trace));
                wrong.append("; " + trace.toString().replace("\n", " "));
            }
        }

        <T> T again(Action<T> a) throws KeeperException, InterruptedException {
            while (true) {
                try {
                    return a.run();
                } catch (KeeperException.ConnectionLossException e) {
                    Thread.sleep(20);
                }
            }
        }

        /** Reads behind a sync, until there is an answer. */
        <T> T fresh(Action<T> a) throws KeeperException, InterruptedException {
            return again(() -> {
                int[] code = new int[1];
                CountDownLatch done = new CountDownLatch(1);
                zk.sync("/", (rc, path, ctx) -> {
                    code[0] = rc;
                    done.countDown();
                }, null);
                done.await();
                if (code[0] != 0) {
                    throw KeeperException.create(KeeperException.Code.get(code[0]), "/");
                }
                return a.run();
            });
        }

        String create(String path, String data, CreateMode mode) throws KeeperException, InterruptedException {
            return zk.create(path, data.getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, mode);
        }

        static void took(long began) {
            longest.accumulateAndGet((System.nanoTime() - began) / 1_000_000, Math::max);
        }

        /** Adds one to a counter, once. */
        void count() throws Exception {
            long began = System.nanoTime();
            try {
                zk.setData(root + "/counter", Integer.toString(counts + 1).getBytes(), counts);
                counts++;
            } catch (KeeperException.ConnectionLossException e) {
                unsure++;
                int found = Integer.parseInt(new String(fresh(() -> zk.getData(root + "/counter", false, null))));
                if (found != counts && found != counts + 1) {
                    wrong.append("; the counter went from " + counts + " to " + found);
                }
                counts = found;
            }
            took(began);
        }

        /** Puts an item, whose name must come behind all before. */
        void item() throws Exception {
            long began = System.nanoTime();
            try {
                names.add(create(root + "/items/i-", Integer.toString(names.size()), CreateMode.PERSISTENT_SEQUENTIAL));
            } catch (KeeperException.ConnectionLossException e) {
                unsure++;
                List<String> there = new ArrayList<>(fresh(() -> zk.getChildren(root + "/items", false)));
                Collections.sort(there);
                if (there.size() > names.size()) {
                    names.add(root + "/items/" + there.get(there.size() - 1));
                }
            }
            took(began);
        }

        /** Has something happen below the persistent watch, and to the watch of another session. */
        void beat() throws Exception {
            String path = root + "/watched/" + made.size();
            boolean sure = true;
            try {
                create(path, "", CreateMode.EPHEMERAL);
            } catch (KeeperException.ConnectionLossException e) {
                sure = false;
                unsure++;
            }
            try {
                zk.delete(path, -1);
            } catch (KeeperException.ConnectionLossException e) {
                unsure++;
                sure = false;
                fresh(() -> {
                    try {
                        zk.delete(path, -1);
                    } catch (KeeperException.NoNodeException none) {
                        // the first has deleted it
                    }
                    return null;
                });
            } catch (KeeperException.NoNodeException e) {
                if (sure) {
                    wrong.append("; " + path + " is lost");
                }
            }
            made.put(path, sure);
            again(() -> zk.setData(root + "/beat", Integer.toString(beats + 1).getBytes(), -1));
            beats++;
        }

        /** Waits for the lock, and adds one to what only its holder may write. */
        void turn() throws Exception {
            String prefix = id + "-";
            String mine = null;
            while (mine == null) {
                try {
                    mine = create(group.path + "/" + prefix, "", CreateMode.EPHEMERAL_SEQUENTIAL);
                } catch (KeeperException.ConnectionLossException e) {
                    unsure++;
                    for (String name : fresh(() -> zk.getChildren(group.path, false))) {
                        if (name.startsWith(prefix)) {
                            mine = group.path + "/" + name;
                        }
                    }
                }
            }
            String number = mine.substring(mine.length() - 10);
            while (true) {
                String ahead = null;
                int own = 0;
                for (String name : again(() -> zk.getChildren(group.path, false))) {
                    String n = name.substring(name.length() - 10);
                    own += name.startsWith(prefix) ? 1 : 0;
                    if (n.compareTo(number) < 0 && (ahead == null || n.compareTo(ahead.substring(ahead.length() - 10)) > 0)) {
                        ahead = name;
                    }
                }
                if (own != 1) {
                    wrong.append("; it has " + own + " places in the line of the lock");
                    return;
                }
                if (ahead == null) {
                    break;
                }
                String wait = group.path + "/" + ahead;
                CountDownLatch gone = new CountDownLatch(1);
                Stat stat = again(() -> zk.exists(wait, e -> {
                    if (e.getType() == Watcher.Event.EventType.NodeDeleted) {
                        gone.countDown();
                    }
                }));
                if (stat != null && !gone.await(3, TimeUnit.MINUTES)) {
                    wrong.append("; nothing was heard of the end of " + wait);
                }
            }
            if (group.holders.incrementAndGet() != 1) {
                wrong.append("; two hold the lock");
            }
            // What the holder before has written shows: its place's end, which has been seen, came after that.
            int found = Integer.parseInt(new String(again(() -> zk.getData(group.path, false, null))));
            synchronized (group) {
                if (found != group.count) {
                    wrong.append("; the lock's znode has " + found + " after " + group.count + " turns");
                }
                group.count = found + 1;
            }
            again(() -> zk.setData(group.path, Integer.toString(found + 1).getBytes(), -1));
            group.holders.decrementAndGet();
            String place = mine;
            again(() -> {
                try {
                    zk.delete(place, -1);
                } catch (KeeperException.NoNodeException e) {
                    // an attempt before has deleted it
                }
                return null;
            });
            turns++;
        }

        void verify() throws Exception {
            Stat stat = new Stat();
            String counter = new String(fresh(() -> zk.getData(root + "/counter", false, stat)));
            if (!counter.equals(Integer.toString(counts)) || stat.getVersion() != counts) {
                wrong.append("; the counter is " + counter + " of version " + stat.getVersion() + " after " + counts + " writes");
            }
            List<String> there = new ArrayList<>(again(() -> zk.getChildren(root + "/items", false)));
            Collections.sort(there);
            if (there.size() != names.size()) {
                wrong.append("; " + there.size() + " items instead of " + names.size());
            }
            for (int i = 0; i < Math.min(there.size(), names.size()); i++) {
                String item = root + "/items/" + there.get(i);
                String data = i % 50 == 0 ? new String(again(() -> zk.getData(item, false, null))) : Integer.toString(i);
                if (!names.get(i).equals(item) || !data.equals(Integer.toString(i))) {
                    wrong.append("; item " + i + " is " + item + " with " + data + ", and was put as " + names.get(i));
                    break;
                }
            }
            for (String path : new String[] {root + "/mine", place}) {
                Stat own = again(() -> zk.exists(path, false));
                if (own == null || own.getEphemeralOwner() != id) {
                    wrong.append("; " + path + " is " + own);
                }
            }
            if (zk.getSessionId() != id || expired.get() != 0) {
                wrong.append("; session " + Long.toHexString(id) + " became " + Long.toHexString(zk.getSessionId()) + ", " + expired.get() + " expired");
            }
            int version = again(() -> zk.exists(watched.root + "/beat", false)).getVersion();
            for (int i = 0; i < 2400 && (seen != version || late.get() != 1); i++) {
                Thread.sleep(50);
            }
            if (seen != version || late.get() != 1 || spurious > 0) {
                wrong.append("; a watch saw the beat at last at version " + seen + " of " + version + ", and " + spurious + " times unchanged; " + late.get()
                    + " events of a watch that was to fire once");
            }
            made.forEach((path, sure) -> {
                for (String type : new String[] {"NodeCreated ", "NodeDeleted "}) {
                    if (sure && !heard.containsKey(type + path)) {
                        wrong.append("; nothing was heard of " + type + path);
                    }
                }
            });
        }
    }
}
