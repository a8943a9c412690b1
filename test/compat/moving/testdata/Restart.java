import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

// Has Apache's server load one data directory after the other, as it does when it starts: each
// line of standard input names the directories of the log and of the snapshots. The server writes a
// snapshot of what it has loaded, and a line tells how it ended.
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
                server.loadData();
                files.close();
                System.out.println("ok");
            } catch (Throwable e) {
                System.out.println("failed " + e.toString().replace('\n', ' '));
            }
            System.out.flush();
        }
    }
}
