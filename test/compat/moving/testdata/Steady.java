import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * A client that holds one session with an ephemeral znode, a place in a line and watches, and writes until a line comes on
 * its standard input. Then it says "done" with what it has seen, or "failed" and why.
 */
public class Steady {
    static final AtomicInteger expired = new AtomicInteger();
    static final AtomicInteger late = new AtomicInteger();
    static final AtomicInteger below = new AtomicInteger();
    static final AtomicInteger lost = new AtomicInteger();
    static volatile boolean end;
    static ZooKeeper zk;
    static int wrote;
    static int put;
    static int unsure;
    static final List<String> names = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        zk = new ZooKeeper(args[0], 20000, e -> {
            if (e.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            } else if (e.getState() == Watcher.Event.KeeperState.Expired) {
                expired.incrementAndGet();
            } else if (e.getState() == Watcher.Event.KeeperState.Disconnected) {
                lost.incrementAndGet();
            }
        });
        connected.await();
        long session = zk.getSessionId();
        String root = "/steady-" + args[1];
        create(root, "0", CreateMode.PERSISTENT);
        create(root + "/counter", "0", CreateMode.PERSISTENT);
        create(root + "/items", "", CreateMode.PERSISTENT);
        create(root + "/watched", "", CreateMode.PERSISTENT);
        create(root + "/mine", "", CreateMode.EPHEMERAL);
        String place = create(root + "/line-", "", CreateMode.EPHEMERAL_SEQUENTIAL);
        zk.exists(root + "/late", e -> {
            if (e.getType() == Watcher.Event.EventType.NodeCreated) {
                late.incrementAndGet();
            }
        });
        zk.addWatch(root + "/watched", e -> {
            if (e.getType() == Watcher.Event.EventType.NodeCreated) {
                below.incrementAndGet();
            }
        }, AddWatchMode.PERSISTENT_RECURSIVE);
        System.out.println("ready");
        Thread input = new Thread(() -> {
            try {
                new BufferedReader(new InputStreamReader(System.in)).readLine();
            } catch (java.io.IOException e) {
                // the end, too
            }
            end = true;
        });
        input.setDaemon(true);
        input.start();
        while (!end) {
            count(root + "/counter");
            item(root + "/items");
            Thread.sleep(5);
        }
        again(() -> create(root + "/late", "", CreateMode.PERSISTENT));
        for (int i = 0; i < 20; i++) {
            create(root + "/watched/" + i, "", CreateMode.PERSISTENT);
        }
        zk.sync("/", (rc, path, ctx) -> { }, null);
        TimeUnit.MILLISECONDS.sleep(500);
        verify(root, session, place);
    }

    interface Action {
        void run() throws KeeperException, InterruptedException;
    }

    static void again(Action a) throws Exception {
        while (true) {
            try {
                a.run();
                return;
            } catch (KeeperException.ConnectionLossException e) {
                Thread.sleep(20);
            }
        }
    }

    static String create(String path, String data, CreateMode mode) throws KeeperException, InterruptedException {
        return zk.create(path, data.getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, mode);
    }

    /** Adds one to a counter, once. */
    static void count(String path) throws Exception {
        try {
            zk.setData(path, Integer.toString(wrote + 1).getBytes(), wrote);
        } catch (KeeperException.ConnectionLossException e) {
            unsure++;
            int[] found = new int[1];
            again(() -> {
                zk.sync("/", (rc, p, ctx) -> { }, null);
                found[0] = Integer.parseInt(new String(zk.getData(path, false, null)));
            });
            if (found[0] == wrote) {
                return;
            }
        }
        wrote++;
    }

    /** Puts an item, whose name must come behind all before. */
    static void item(String dir) throws Exception {
        try {
            names.add(create(dir + "/i-", Integer.toString(put), CreateMode.PERSISTENT_SEQUENTIAL));
        } catch (KeeperException.ConnectionLossException e) {
            unsure++;
            List<String> there = new ArrayList<>();
            again(() -> {
                zk.sync("/", (rc, p, ctx) -> { }, null);
                there.clear();
                there.addAll(zk.getChildren(dir, false));
            });
            Collections.sort(there);
            if (there.size() == names.size()) {
                return;
            }
            names.add(dir + "/" + there.get(there.size() - 1));
        }
        put++;
    }

    static void verify(String root, long session, String place) throws Exception {
        StringBuilder wrong = new StringBuilder();
        Stat stat = new Stat();
        String counter = new String(zk.getData(root + "/counter", false, stat));
        if (!counter.equals(Integer.toString(wrote)) || stat.getVersion() != wrote) {
            wrong.append("; the counter is " + counter + " of version " + stat.getVersion() + " after " + wrote + " writes");
        }
        List<String> there = zk.getChildren(root + "/items", false);
        Collections.sort(there);
        if (there.size() != names.size()) {
            wrong.append("; " + there.size() + " items instead of " + names.size());
        }
        for (int i = 0; i < Math.min(there.size(), names.size()); i++) {
            String data = i % 50 == 0 ? new String(zk.getData(root + "/items/" + there.get(i), false, null)) : Integer.toString(i);
            if (!names.get(i).endsWith("/" + there.get(i)) || !data.equals(Integer.toString(i))) {
                wrong.append("; item " + i + " is " + there.get(i) + " with " + data + ", and was put as " + names.get(i));
                break;
            }
        }
        for (String path : new String[] {root + "/mine", place}) {
            Stat own = zk.exists(path, false);
            if (own == null || own.getEphemeralOwner() != session) {
                wrong.append("; " + path + " is " + own);
            }
        }
        if (zk.getSessionId() != session || expired.get() != 0) {
            wrong.append("; session " + Long.toHexString(session) + " became " + Long.toHexString(zk.getSessionId()) + ", " + expired.get() + " expired");
        }
        if (late.get() != 1 || below.get() != 20) {
            wrong.append("; " + late.get() + " events of a watch that was to fire once, " + below.get() + " of 20 of a persistent one");
        }
        zk.close();
        String told = wrote + " counts, " + put + " items, " + unsure + " unsure, " + lost.get() + " connections lost";
        System.out.println(wrong.length() == 0 ? "done: " + told : "failed: " + told + wrong);
    }
}
