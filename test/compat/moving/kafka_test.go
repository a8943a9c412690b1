package moving

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// TestKafka moves the ensemble under a running Kafka to Zooid, and back: its producer notices nothing, the broker's
// session and its ephemeral znode stay what they are, and topics can be created all the time.
func TestKafka(t *testing.T) {
	need(t)
	if os.Getenv("ZOOID_KAFKA") != "1" {
		t.Skip("set ZOOID_KAFKA=1: it fetches Kafka, and takes some minutes")
	}
	e := startEnsemble(t, "3.9.5")
	z := newZooids(t, zooid(t), quickLimits)
	k := startKafka(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs))
	k.createTopic("before")
	was := brokerZnode(t, e.connect())
	p := k.startProducer("before")
	time.Sleep(*switchTime / 2)

	began := time.Now()
	out := z.takeOver(e, filepath.Join(t.TempDir(), "copy"))
	t.Logf("the switch took %v\n%s", time.Since(began), out)
	k.createTopic("after")
	if is := brokerZnode(t, z.addrs[0]); is != was {
		t.Errorf("the broker's znode was %+v, and is %+v", was, is)
	}
	z.join(1)
	z.join(2)
	time.Sleep(*switchTime)
	z.servers[0].kill() // the leader
	k.createTopic("after-a-leader")
	time.Sleep(*switchTime)
	if is := brokerZnode(t, z.addrs[1]); is != was {
		t.Errorf("the broker's znode was %+v, and is %+v under the second leader", was, is)
	}

	z.back(e)
	time.Sleep(*switchTime / 2)
	k.createTopic("back")
	if is := brokerZnode(t, e.connect()); is != was {
		t.Errorf("the broker's znode was %+v, and is %+v in Apache again", was, is)
	}
	acked := p.end()
	if held := k.held("before"); held != acked {
		t.Errorf("the topic holds %d messages, and %d were acknowledged", held, acked)
	}
	for _, bad := range []string{"Session expired", "session expired", "FATAL", "Error registering broker"} {
		if strings.Contains(k.output.text(), bad) {
			t.Errorf("Kafka said %q", bad)
		}
	}
	t.Logf("%d messages acknowledged, each of them once in the topic", acked)
}

// kafkaVersion is the last one that keeps its metadata in ZooKeeper.
const kafkaVersion = "kafka-3.9.1"

// kafkaJars returns Kafka's class path; the first time Maven fetches it.
func kafkaJars(t *testing.T) string {
	t.Helper()
	jars := filepath.Join(filepath.Dir(filepath.Dir(classPath(t, "3.9.5"))), kafkaVersion)
	if _, err := os.Stat(jars); err != nil {
		command(t, "mvn", "-B", "-q", "-f", "kafka.pom.xml", "dependency:copy-dependencies", "-DoutputDirectory="+jars+".new")
		if err := os.Rename(jars+".new", jars); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(jars, "*")
}

// A kafka is a running broker.
type kafka struct {
	t      *testing.T
	jars   string
	addr   string
	logger string
	output output
}

// startPatienceOfKafka is how long a broker may take to start.
const startPatienceOfKafka = 2 * time.Minute

func startKafka(t *testing.T, zookeepers []string) *kafka {
	t.Helper()
	dir := t.TempDir()
	k := &kafka{
		t: t, jars: kafkaJars(t), addr: freeport.Address(t), logger: filepath.Join(dir, "log4j.properties"),
		output: newOutput(t),
	}
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf("broker.id=1\nlisteners=PLAINTEXT://%s\nlog.dirs=%s\nzookeeper.connect=%s\nzookeeper.session.timeout.ms=18000\nnum.partitions=3\n"+
		"offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n",
		k.addr, filepath.Join(dir, "messages"), strings.Join(zookeepers, ","))
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	logger := "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\nlog4j.appender.out.target=System.err\n" +
		"log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n\n"
	if err := os.WriteFile(k.logger, []byte(logger), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", k.args("kafka.Kafka", properties)...)
	cmd.Stdout, cmd.Stderr = k.output.file, k.output.file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
		if t.Failed() {
			said := k.output.text()
			t.Logf("Kafka said at last:\n%s", said[max(0, len(said)-6000):])
		}
	})
	for end := time.Now().Add(startPatienceOfKafka); !strings.Contains(k.output.text(),
		"started (kafka.server.KafkaServer)"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Kafka doesn't start")
		}
	}
	return k
}

// args are those of java, for one of Kafka's programs.
func (k *kafka) args(main string, more ...string) []string {
	return slices.Concat([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-cp", k.jars, "-Dlog4j.configuration=file:" + k.logger, main,
	}, more)
}

// createTopic has the broker, which is the controller, write a new topic's znodes.
func (k *kafka) createTopic(name string) {
	k.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx,
		"java", k.args("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", k.addr, "--create", "--topic", name,
			"--partitions", "3")...).CombinedOutput(); err != nil {
		k.t.Fatalf("create the topic %s: %v\n%s", name, err, out)
	}
	k.t.Logf("the topic %s was created in %.1f s", name, time.Since(began).Seconds())
}

// held returns how many messages a topic has.
func (k *kafka) held(topic string) (n int) {
	k.t.Helper()
	out, err := exec.Command("java",
		k.args("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", k.addr, "--topic", topic)...).Output()
	if err != nil {
		k.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if parts := strings.Split(strings.TrimSpace(line), ":"); len(parts) == 3 {
			one, err := strconv.Atoi(parts[2])
			if err != nil {
				k.t.Fatalf("%q: %v", line, err)
			}
			n += one
		}
	}
	return n
}

// A producer sends messages at a steady pace, and says of each whether it was acknowledged.
type producer struct {
	t      *testing.T
	cmd    *exec.Cmd
	output output
}

func (k *kafka) startProducer(topic string) *producer {
	k.t.Helper()
	p := &producer{t: k.t, output: newOutput(k.t)}
	p.cmd = exec.Command("java",
		k.args("org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", k.addr, "--topic", topic,
			"--throughput", "200", "--acks", "-1")...)
	p.cmd.Stdout = p.output.file
	if err := p.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { p.cmd.Process.Kill() })
	for end := time.Now().Add(time.Minute); !strings.Contains(p.output.text(), "producer_send_success"); time.Sleep(
		50 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("the producer sends nothing:\n%.2000s", p.output.text())
		}
	}
	return p
}

// end stops the producer, and returns how many messages were acknowledged, which are all that it sent.
func (p *producer) end() int {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
	var sum struct {
		Name        string
		Sent, Acked int
	}
	for line := range strings.Lines(p.output.text()) {
		if strings.Contains(line, `"producer_send_error"`) {
			p.t.Errorf("the producer noticed: %.500s", line)
		}
		if strings.Contains(line, `"tool_data"`) {
			if err := json.Unmarshal([]byte(line), &sum); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if sum.Name == "" || sum.Sent != sum.Acked || sum.Acked < 1000 {
		p.t.Errorf("the producer ended with %+v", sum)
	}
	return sum.Acked
}

// A registered is what stays of a broker's znode as long as its session does.
type registered struct {
	Created, Modified, Owner int64
}

// brokerZnode reads the broker's ephemeral znode.
func brokerZnode(t *testing.T, connect string) registered {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, connect, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, stat, err := c.Get(ctx, "/brokers/ids/1")
	if err != nil {
		t.Fatal(err)
	}
	return registered{stat.Czxid, stat.Mzxid, stat.EphemeralOwner}
}
