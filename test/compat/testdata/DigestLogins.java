import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;

/**
 * Logs in at a server by each section of the login file that is named, "none" being no login, and prints who it is
 * and what it may do: DigestLogins ADDRESS SECTION...
 */
public class DigestLogins {
    interface Call {
        Object make() throws KeeperException, InterruptedException;
    }

    public static void main(String[] args) throws Exception {
        for (int i = 1; i < args.length; i++) {
            System.out.println(args[i] + ":");
            login(args[0], args[i]);
        }
        System.exit(0);
    }

    static void login(String address, String section) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        boolean none = section.equals("none");
        config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, String.valueOf(!none));
        config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
        BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        ZooKeeper zk = new ZooKeeper(address, 60000, event -> states.add(event.getState()), config);
        KeeperState state = states.take();
        while (!none && state != KeeperState.SaslAuthenticated && state != KeeperState.AuthFailed) {
            state = states.take();
        }
        System.out.println("  state: " + state);
        String path = "/by-" + section;
        if (!told("exists", () -> zk.exists("/", false) != null)) {
            return; // the server has ended the session, or the client has given up
        }
        told("whoami", () -> {
            List<String> names = new ArrayList<>();
            for (ClientInfo info : zk.whoAmI()) {
                names.add(info.getAuthScheme() + ": " + info.getUser());
            }
            Collections.sort(names);
            return names;
        });
        told("create", () -> zk.create(path, new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        told("ACL", () -> {
            List<ACL> acl = zk.getACL(path, null);
            return acl.toString().trim();
        });
        zk.close();
    }

    /** Prints the result of a call or its error, and reports whether it has a result. */
    static boolean told(String what, Call call) throws InterruptedException {
        try {
            System.out.println("  " + what + ": " + call.make());
            return true;
        } catch (KeeperException e) {
            System.out.println("  " + what + ": " + e.code());
            return false;
        }
    }
}
