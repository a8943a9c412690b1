import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

// Has Apache's server load one data directory after the other, as it does when it starts: each
// line of standard input names the directories of the log and of the snapshots. The server writes a
// snapshot of what it has loaded, and a line tells how it ended.
//
// If a third field says "serve", the server starts, and the line ends with the port at which it answers
// clients until the next line of standard input. It deletes nothing by itself meanwhile: no session
// expires, and nobody looks for containers and TTL znodes.
public class Restart {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] dirs = line.split("\t");
            try {
                FileTxnSnapLog files = new FileTxnSnapLog(new File(dirs[0]), new File(dirs[1]));
                ZooKeeperServer server = new ZooKeeperServer();
                server.setTxnLogFactory(files);
                server.setZKDatabase(new ZKDatabase(files));
                if (dirs.length > 2) {
                    serve(server, in);
                    continue;
                }
                server.loadData();
                files.close();
                System.out.println("ok");
            } catch (Throwable e) {
                System.out.println("failed " + e.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
        System.exit(0); // though a server's threads may be left
    }

    private static void serve(ZooKeeperServer server, BufferedReader in) throws Exception {
        server.setTickTime(1_000_000_000); // sessions expire at multiples of it
        server.setMinSessionTimeout(1_000);
        server.setMaxSessionTimeout(120_000);
        InetSocketAddress any = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0);
        ServerCnxnFactory factory = ServerCnxnFactory.createFactory(any, 0);
        try {
            factory.startup(server); // which loads the data
            System.out.println("ok " + factory.getLocalPort());
            System.out.flush();
            in.readLine();
        } finally {
            factory.shutdown();
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread.getName().equals("SessionTracker")) {
                    thread.interrupt(); // it sleeps for a tick otherwise, and holds the tree
                }
            }
        }
        System.out.println("ok");
        System.out.flush();
    }
}
