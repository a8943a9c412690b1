import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Sends every request that Apache's Java client can send, through the recorder
 * of golden_capture_test.go, which cuts the connection at sync("/cut").
 * Arguments: host:port of the recorder, the server's line for reconfig.
 */
public class Client {
    static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    /** Runs a call that is expected to fail; the reply is recorded all the same. */
    static void fails(Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (KeeperException e) {
            return;
        }
        throw new IllegalStateException("a call that should fail doesn't");
    }

    static void cut(ZooKeeper zk) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        zk.sync("/cut", (rc, path, ctx) -> done.countDown(), null);
        done.await();
        for (;;) {
            try {
                zk.exists("/", false);
                return;
            } catch (KeeperException.ConnectionLossException e) {
                Thread.sleep(100);
            }
        }
    }

    static void writes(ZooKeeper zk) throws Exception {
        zk.create("/g", bytes("data"), OPEN, CreateMode.PERSISTENT);
        zk.create("/g/null", null, OPEN, CreateMode.PERSISTENT);
        zk.create("/g/empty", new byte[0], OPEN, CreateMode.PERSISTENT, new Stat());
        zk.create("/g/seq-", bytes("s"), OPEN, CreateMode.PERSISTENT_SEQUENTIAL);
        zk.create("/g/e", bytes("e"), OPEN, CreateMode.EPHEMERAL, new Stat());
        zk.create("/g/es-", bytes("e"), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL);
        zk.create("/g/container", bytes("c"), OPEN, CreateMode.CONTAINER, new Stat());
        zk.create("/g/ttl", bytes("t"), OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 3600000);
        zk.create("/g/ttl-", bytes("t"), OPEN, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, new Stat(), 3600000);
        zk.create("/g/m\u00fcsli \u6f22", bytes("\u6f22"), OPEN, CreateMode.PERSISTENT);
        zk.create("/g/mine", bytes("m"), ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        zk.setData("/g", bytes("other"), 0);
        zk.setData("/g/null", null, -1);
        zk.setACL("/g/empty", Arrays.asList(new ACL(31, ZooDefs.Ids.ANYONE_ID_UNSAFE),
                new ACL(3, new Id("digest", "a:b")), new ACL(1, new Id("ip", "10.0.0.0/8"))), -1);
        fails(() -> zk.create("/g", null, OPEN, CreateMode.PERSISTENT));
        fails(() -> zk.create("/no/parent", null, OPEN, CreateMode.PERSISTENT));
        fails(() -> zk.create("/g/e/child", null, OPEN, CreateMode.PERSISTENT));
        fails(() -> zk.create("/g/bad", null, Collections.singletonList(new ACL(31, new Id("foo", "x"))), CreateMode.PERSISTENT));
        fails(() -> { zk.setData("/g", null, 77); return null; });
        fails(() -> { zk.delete("/g", -1); return null; });
        fails(() -> { zk.delete("/g/none", -1); return null; });
        zk.delete("/g/container", 0);
    }

    static void reads(ZooKeeper zk) throws Exception {
        zk.exists("/g", false);
        zk.exists("/g/none", true);
        zk.getData("/g", true, new Stat());
        zk.getData("/g/null", false, new Stat());
        zk.getData("/g/empty", false, new Stat());
        zk.getChildren("/g", true);
        zk.getChildren("/g/null", false);
        zk.getChildren("/g", false, new Stat());
        zk.getACL("/g/empty", new Stat());
        zk.getACL("/g/mine", new Stat());
        zk.getEphemerals();
        zk.getEphemerals("/g/e");
        zk.getAllChildrenNumber("/g");
        zk.whoAmI();
        CountDownLatch synced = new CountDownLatch(1);
        zk.sync("/g", (rc, path, ctx) -> synced.countDown(), null);
        synced.await();
        fails(() -> zk.getData("/g/none", false, null));
        fails(() -> zk.getChildren("/g/none", false));
    }

    static void multis(ZooKeeper zk) throws Exception {
        zk.multi(Arrays.asList(
                Op.create("/g/m", bytes("m"), OPEN, CreateMode.PERSISTENT),
                Op.create("/g/m/seq-", bytes("m"), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL),
                Op.create("/g/mc", null, OPEN, CreateMode.CONTAINER),
                Op.create("/g/mt", bytes("t"), OPEN, CreateMode.PERSISTENT_WITH_TTL, 3600000),
                Op.check("/g/m", 0),
                Op.setData("/g/m", bytes("m2"), 0),
                Op.delete("/g/mc", -1)));
        fails(() -> zk.multi(Arrays.asList(
                Op.create("/g/m2", bytes("m"), OPEN, CreateMode.PERSISTENT),
                Op.check("/g/m", 77),
                Op.delete("/g/m2", -1))));
        zk.multi(Arrays.asList(Op.getData("/g"), Op.getData("/g/null"), Op.getChildren("/g"), Op.getData("/g/none"), Op.getChildren("/g/none")));
        zk.multi(Collections.<Op>emptyList());
    }

    static void watches(ZooKeeper zk) throws Exception {
        Watcher w = event -> { };
        zk.create("/w", null, OPEN, CreateMode.PERSISTENT);
        zk.getData("/w", w, null);
        zk.getChildren("/w", w);
        zk.exists("/w/a", w);
        zk.create("/w/a", null, OPEN, CreateMode.PERSISTENT);
        zk.setData("/w", bytes("x"), -1);
        zk.getData("/w/a", w, null);
        zk.delete("/w/a", -1);
        zk.getData("/w", w, null);
        zk.getChildren("/w", w);
        zk.exists("/w/later", w);
        cut(zk); // the client sends setWatches
        zk.removeWatches("/w", w, Watcher.WatcherType.Data, false);
        zk.removeAllWatches("/w", Watcher.WatcherType.Children, false);
        zk.addWatch("/w", w, AddWatchMode.PERSISTENT);
        zk.addWatch("/w/deep", w, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.create("/w/deep", null, OPEN, CreateMode.PERSISTENT);
        zk.create("/w/deep/er", null, OPEN, CreateMode.PERSISTENT);
        cut(zk); // the client sends setWatches2
        zk.removeAllWatches("/w", Watcher.WatcherType.Any, false);
        fails(() -> { zk.removeAllWatches("/w/deep/er", Watcher.WatcherType.Any, false); return null; });
    }

    static void reconfig(ZooKeeperAdmin admin, String members) throws Exception {
        admin.getConfig(false, new Stat());
        admin.reconfigure((String) null, null, members, -1, new Stat());
        fails(() -> admin.reconfigure("", "", null, 77, new Stat()));
    }

    public static void main(String[] args) throws Exception {
        ZooKeeperAdmin zk = new ZooKeeperAdmin(args[0], 3000, event -> { });
        zk.addAuthInfo("digest", bytes("super:test"));
        writes(zk);
        reads(zk);
        multis(zk);
        watches(zk);
        reconfig(zk, args[1]);
        Thread.sleep(2500); // long enough for a ping
        zk.close();
    }
}
