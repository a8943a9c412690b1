import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** One Java member of a mixed fleet: Fleet CONNECT UMPIRE NAME RECIPE PATH. */
public class Fleet {
    static BufferedReader in;
    static PrintWriter out;

    /** Tells the umpire, and returns whether to go on. */
    static synchronized boolean say(String line) throws Exception {
        out.println(line);
        return "go".equals(in.readLine());
    }

    /** Is inside for a moment. */
    static boolean inside(String kind) throws Exception {
        say("in " + kind);
        Thread.sleep(1);
        return say("out " + kind);
    }

    public static void main(String[] args) throws Exception {
        String[] umpire = args[1].split(":");
        Socket socket = new Socket(umpire[0], Integer.parseInt(umpire[1]));
        in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        out = new PrintWriter(socket.getOutputStream(), true);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10000, 10000, new RetryForever(20));
        client.start();
        say("name " + args[2]);
        run(client, args[3], args[4]);
        client.close();
        socket.close();
        System.exit(0);
    }

    static void run(CuratorFramework client, String recipe, String path) throws Exception {
        switch (recipe) {
            case "lock": locked(new InterProcessMutex(client, path), "exclusive"); break;
            case "fenced": fenced(client, path); break;
            case "writer": locked(new InterProcessReadWriteLock(client, path).writeLock(), "exclusive"); break;
            case "reader": locked(new InterProcessReadWriteLock(client, path).readLock(), "shared"); break;
            case "semaphore": leased(new InterProcessSemaphoreV2(client, path, 2)); break;
            case "election": elected(client, path); break;
            case "latch": latched(client, path); break;
            case "counter": counted(client, path); break;
            case "barrier": together(client, path); break;
            case "queue": queued(client, path); break;
            case "discovery": discovered(client, path); break;
            default: throw new IllegalArgumentException(recipe);
        }
    }

    static void locked(InterProcessLock lock, String kind) throws Exception {
        for (boolean more = true; more; ) {
            lock.acquire();
            try {
                more = inside(kind);
            } finally {
                lock.release();
            }
        }
    }

    /** Counts in the znode fence beside the lock: whoever is refused isn't alone. */
    static void fenced(CuratorFramework client, String path) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(client, path);
        int turn = 0;
        for (boolean more = true; more; ) {
            lock.acquire();
            try {
                say("in exclusive");
                fence(client, path + "-fence", " java " + ++turn);
                more = say("out exclusive");
            } finally {
                lock.release();
            }
        }
    }

    static void fence(CuratorFramework client, String path, String mark) throws Exception {
        Stat stat = new Stat();
        String old = new String(client.getData().storingStatIn(stat).forPath(path), StandardCharsets.UTF_8);
        String mine = Integer.parseInt(old.split(" ")[0]) + 1 + mark;
        try {
            client.setData().withVersion(stat.getVersion()).forPath(path, mine.getBytes(StandardCharsets.UTF_8));
        } catch (KeeperException.BadVersionException e) { // the reply to the first attempt may be lost
            String now = new String(client.getData().forPath(path), StandardCharsets.UTF_8);
            if (!now.equals(mine)) {
                throw new IllegalStateException("fence: " + old + " became " + now + ", not " + mine);
            }
        }
    }

    static void leased(InterProcessSemaphoreV2 semaphore) throws Exception {
        for (boolean more = true; more; ) {
            Lease lease = semaphore.acquire();
            more = inside("lease");
            semaphore.returnLease(lease);
        }
    }

    static void elected(CuratorFramework client, String path) throws Exception {
        Object over = new Object();
        boolean[] more = {true};
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                boolean go = inside("exclusive");
                synchronized (over) {
                    more[0] = more[0] && go;
                    over.notifyAll();
                }
            }
        });
        selector.autoRequeue();
        selector.start();
        synchronized (over) {
            while (more[0]) {
                over.wait();
            }
        }
        selector.close();
    }

    static void latched(CuratorFramework client, String path) throws Exception {
        for (boolean more = true; more; ) {
            LeaderLatch latch = new LeaderLatch(client, path, "java");
            latch.start();
            latch.await();
            more = inside("exclusive");
            latch.close();
        }
    }

    static void counted(CuratorFramework client, String path) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(10000, 5));
        for (boolean more = true; more; ) {
            if (!counter.add(1000L).succeeded()) {
                throw new IllegalStateException("the counter could not be changed");
            }
            more = inside("counted");
        }
    }

    static void together(CuratorFramework client, String path) throws Exception {
        for (int round = 0; round < 5; round++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path + "/" + round, 3);
            barrier.enter();
            barrier.leave();
        }
        inside("together");
    }

    static class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) { return item.getBytes(StandardCharsets.UTF_8); }
        @Override
        public String deserialize(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }
    }

    static void queued(CuratorFramework client, String path) throws Exception {
        QueueConsumer<String> tell = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String message) throws Exception { say("item " + message); }
            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) { }
        };
        DistributedQueue<String> to = QueueBuilder.builder(client, null, new Text(), path + "/to").putInBackground(false).buildQueue();
        to.start();
        for (int i = 0; i < 20; i++) {
            to.put("java " + i);
        }
        DistributedPriorityQueue<String> urgent =
            QueueBuilder.builder(client, null, new Text(), path + "/urgent").putInBackground(false).buildPriorityQueue(1);
        urgent.start();
        urgent.put("late", 7);
        urgent.put("early", -7);
        DistributedQueue<String> from = QueueBuilder.builder(client, tell, new Text(), path + "/from").lockPath(path + "/from-claims").buildQueue();
        from.start();
        say("in queue");
        while (say("out queue")) {
            Thread.sleep(20);
        }
        from.close();
        to.close();
        urgent.close();
    }

    static void discovered(CuratorFramework client, String path) throws Exception {
        ServiceInstance<String> me = ServiceInstance.<String>builder().name("fleet").id("java").address("10.0.0.9").port(99).payload("hello").build();
        ServiceDiscovery<String> discovery =
            ServiceDiscoveryBuilder.builder(String.class).client(client).basePath(path).thisInstance(me).build();
        discovery.start();
        for (;;) {
            Collection<ServiceInstance<String>> all = discovery.queryForInstances("fleet");
            for (ServiceInstance<String> i : all) {
                if (i.getId().equals("go")) {
                    say("found " + i.getAddress() + " " + i.getPort() + " " + i.getPayload() + " " + i.isEnabled());
                }
            }
            if (!inside("discovery")) {
                break;
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
        discovery.close();
    }
}
