import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitOption;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Keys starts Apache's server, as its main program does, once for each configuration that it reads from standard input,
 * and says what became of it. Each server has its classes, and so its static fields, to itself.
 *
 * A line of input is the key, the value and the names of fields, Class.field, separated by tabs. A line of output is
 * "starts", "refuses" or "hangs", then the fields' values, separated by tabs; a field that no object has is "?".
 */
public class Keys {
    static final int PATIENCE_MS = 5_000;
    static PrintStream out;

    public static void main(String[] args) throws Exception {
        out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        boolean all = args.length > 0 && args[0].equals("all");
        Map<String, Set<String>> plain = all ? new Keys().run("", "") : null;
        Properties system = (Properties) System.getProperties().clone();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] part = line.split("\t", -1);
            System.setProperties((Properties) system.clone());
            Keys run = new Keys();
            Map<String, Set<String>> fields = run.run(part[0], part[1]);
            StringBuilder answer = new StringBuilder(run.outcome);
            if (all) {
                for (Map.Entry<String, Set<String>> f : fields.entrySet()) {
                    if (!f.getValue().equals(plain.get(f.getKey()))) {
                        answer.append("\t").append(f.getKey()).append("=").append(f.getValue());
                    }
                }
                answer.append("\t").append(run.why());
            }
            for (int i = 2; i < part.length && !all; i++) {
                answer.append("\t").append(String.join("|", fields.getOrDefault(part[i], Set.of("?"))));
            }
            out.println(answer.toString().replace("\n", " "));
        }
        Runtime.getRuntime().halt(0);
    }

    final int port;
    final AtomicReference<Throwable> failure = new AtomicReference<>();
    String outcome = "starts";

    Keys() throws Exception {
        port = free();
    }

    String why() {
        Throwable e = failure.get();
        while (e != null && e.getCause() != null) {
            e = e.getCause();
        }
        return String.valueOf(e);
    }

    Map<String, Set<String>> run(String key, String value) throws Exception {
        Path home = Files.createTempDirectory("keys");
        Path data = Files.createDirectory(home.resolve("data"));
        Files.write(data.resolve("myid"), "1\n".getBytes());
        Properties p = new Properties();
        p.setProperty("tickTime", "200");
        p.setProperty("initLimit", "10");
        p.setProperty("syncLimit", "5");
        p.setProperty("dataDir", data.toString());
        p.setProperty("standaloneEnabled", "false");
        p.setProperty("admin.enableServer", "false");
        p.setProperty("4lw.commands.whitelist", "srvr");
        p.setProperty("server.1", "127.0.0.1:" + free() + ":" + free() + ";127.0.0.1:" + port);
        if (!key.isEmpty()) {
            if (key.startsWith("-D")) {
                System.setProperty(key.substring(2), value);
            } else {
                p.setProperty(key, value);
            }
        }
        Path cfg = home.resolve("zoo.cfg");
        try (java.io.OutputStream o = Files.newOutputStream(cfg)) {
            p.store(o, "");
        }
        List<URL> jars = new ArrayList<>();
        for (String jar : System.getProperty("keys.jars").split(":")) {
            jars.add(Paths.get(jar).toUri().toURL());
        }
        Map<String, Set<String>> fields = new TreeMap<>();
        try (URLClassLoader loader = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            Class<?> mainClass = loader.loadClass("org.apache.zookeeper.server.quorum.QuorumPeerMain");
            Class<?> exit = loader.loadClass("org.apache.zookeeper.util.ServiceUtils");
            exit.getMethod("setSystemExitProcedure", java.util.function.Consumer.class).invoke(null,
                (java.util.function.Consumer<Integer>) code -> {
                    failure.compareAndSet(null, new RuntimeException("exit " + code));
                    throw new Error("exit " + code);
                });
            Object main = mainClass.getDeclaredConstructor().newInstance();
            Method begin = mainClass.getDeclaredMethod("initializeAndRun", String[].class);
            begin.setAccessible(true);
            ThreadGroup group = new ThreadGroup("case");
            Thread runner = new Thread(group, () -> {
                try {
                    begin.invoke(main, (Object) new String[] {cfg.toString()});
                } catch (java.lang.reflect.InvocationTargetException e) {
                    failure.compareAndSet(null, e.getCause());
                } catch (Throwable e) {
                    failure.compareAndSet(null, e);
                }
            });
            runner.setContextClassLoader(loader);
            runner.start();
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
            while (!serves(main)) {
                if (failure.get() != null) {
                    outcome = "refuses";
                    break;
                }
                if (System.nanoTime() > end) {
                    outcome = "hangs";
                    break;
                }
                Thread.sleep(5);
            }
            if (outcome.equals("starts")) {
                fields = walk(loader, main);
            }
            try {
                mainClass.getMethod("close").invoke(main);
            } catch (java.lang.reflect.InvocationTargetException e) {
                // it had not begun
            }
            for (int tries = 0; tries < 20 && group.activeCount() > 0; tries++) {
                group.interrupt();
                Thread.sleep(20);
            }
        }
        try (java.util.stream.Stream<Path> files = Files.walk(home)) {
            for (Path f : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
                Files.deleteIfExists(f);
            }
        }
        return fields;
    }

    /** Whether the server leads and takes a write, or, where the case has moved its port, leads. */
    boolean serves(Object main) throws Exception {
        Object peer = field(main, "quorumPeer");
        if (peer == null) {
            return write();
        }
        Object server = field(peer, "leader");
        return server != null && (write() || !String.valueOf(peer.getClass().getMethod("getClientPort").invoke(peer))
            .equals(String.valueOf(port)));
    }

    static int free() throws Exception {
        try (java.net.ServerSocket s = new java.net.ServerSocket(0)) {
            return s.getLocalPort();
        }
    }

    static Object field(Object of, String name) throws Exception {
        Field f = of.getClass().getDeclaredField(name);
        f.setAccessible(true);
        return f.get(of);
    }

    /** Opens a session, and has the server work on a request of it; whether there is a session. */
    boolean write() {
        try (Socket s = new Socket()) {
            s.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            s.setSoTimeout(2000);
            DataInputStream in = new DataInputStream(s.getInputStream());
            ByteArrayOutputStream connect = new ByteArrayOutputStream();
            DataOutputStream c = new DataOutputStream(connect);
            c.writeInt(0);
            c.writeLong(0);
            c.writeInt(4000);
            c.writeLong(0);
            c.writeInt(16);
            c.write(new byte[16]);
            c.writeByte(0);
            send(s, connect);
            byte[] reply = new byte[in.readInt()];
            in.readFully(reply);
            if (reply.length < 36) {
                return false;
            }
            ByteArrayOutputStream create = new ByteArrayOutputStream();
            DataOutputStream w = new DataOutputStream(create);
            w.writeInt(1);
            w.writeInt(1);
            string(w, "/k");
            w.writeInt(0);
            w.writeInt(1);
            w.writeInt(31);
            string(w, "world");
            string(w, "anyone");
            w.writeInt(2);
            send(s, create);
            try {
                in.readFully(new byte[in.readInt()]);
            } catch (java.io.IOException e) {
                // a case that has such sessions ended serves all the same
            }
            return true;
        } catch (Exception e) {
            return false;
        }
    }

    static void string(DataOutputStream w, String s) throws Exception {
        w.writeInt(s.length());
        w.writeBytes(s);
    }

    static void send(Socket s, ByteArrayOutputStream body) throws Exception {
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        new DataOutputStream(frame).writeInt(body.size());
        body.writeTo(frame);
        s.getOutputStream().write(frame.toByteArray());
    }

    /** The plain fields of every object of Apache's that main leads to, and the static ones of the classes loaded. */
    static Map<String, Set<String>> walk(URLClassLoader loader, Object main) throws Exception {
        Map<String, Set<String>> found = new TreeMap<>();
        Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        ArrayDeque<Object> next = new ArrayDeque<>();
        next.add(main);
        Method loaded = ClassLoader.class.getDeclaredMethod("findLoadedClass", String.class);
        loaded.setAccessible(true);
        for (URL jar : loader.getURLs()) {
            if (!jar.getPath().matches(".*/zookeeper-[0-9.]*jar")) {
                continue;
            }
            try (java.util.jar.JarFile file = new java.util.jar.JarFile(jar.getPath())) {
                for (java.util.jar.JarEntry e : Collections.list(file.entries())) {
                    if (!e.getName().endsWith(".class")) {
                        continue;
                    }
                    Object c = loaded.invoke(loader, e.getName().replace('/', '.').replaceAll("\\.class$", ""));
                    if (c != null) {
                        take((Class<?>) c, null, found, next);
                    }
                }
            }
        }
        while (!next.isEmpty() && seen.size() < 20_000) {
            Object o = next.remove();
            if (!seen.add(o)) {
                continue;
            }
            for (Class<?> c = o.getClass(); c != null && ours(c); c = c.getSuperclass()) {
                take(c, o, found, next);
            }
        }
        return found;
    }

    static boolean ours(Class<?> c) {
        return c.getName().startsWith("org.apache.zookeeper.");
    }

    static void take(Class<?> c, Object o, Map<String, Set<String>> found, ArrayDeque<Object> next) {
        Field[] fields;
        try {
            fields = c.getDeclaredFields();
        } catch (NoClassDefFoundError e) {
            return;
        }
        for (Field f : fields) {
            if (Modifier.isStatic(f.getModifiers()) != (o == null)) {
                continue;
            }
            Object v;
            try {
                f.setAccessible(true);
                v = f.get(o);
            } catch (Throwable e) {
                continue;
            }
            if (v == null || v instanceof Number || v instanceof Boolean || v instanceof String || v instanceof Enum
                || v instanceof InetSocketAddress) {
                String name = c.getName().replaceAll(".*\\.", "") + "." + f.getName();
                found.computeIfAbsent(name, k -> new TreeSet<>()).add(String.valueOf(v));
            } else if (v instanceof java.util.concurrent.atomic.AtomicReference) {
                Object inner = ((java.util.concurrent.atomic.AtomicReference<?>) v).get();
                if (inner != null && ours(inner.getClass())) {
                    next.add(inner);
                }
            } else if (ours(v.getClass())) {
                next.add(v);
            }
        }
    }
}
