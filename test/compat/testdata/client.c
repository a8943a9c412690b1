/*
 * A walk through the ZooKeeper C client against the server at argv[1], printing what each call gave.
 *
 * Every wait is for an event that must come, and a watch's event is printed where it is waited for, so two servers
 * that behave the same give the same text but for zxids, times and session ids.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum {
	session_timeout_ms = 10000,
	event_patience_s = 20, /* until an event that must come; seldom more than milliseconds */
	buffer_bytes = 4096,
	max_events = 64,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the below */
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static char events[max_events][256];
static int events_in, events_out;
static int session_ready;

static const char *type_name(int type) {
	if (type == ZOO_CREATED_EVENT) return "created";
	if (type == ZOO_DELETED_EVENT) return "deleted";
	if (type == ZOO_CHANGED_EVENT) return "changed";
	if (type == ZOO_CHILD_EVENT) return "child";
	if (type == ZOO_SESSION_EVENT) return "session";
	return "other";
}

static void watch(zhandle_t *zh, int type, int state, const char *path, void *context) {
	(void)zh;
	pthread_mutex_lock(&mutex);
	if (type == ZOO_SESSION_EVENT) {
		if (state == ZOO_CONNECTED_STATE) session_ready = 1;
	} else if (events_in < max_events) {
		snprintf(events[events_in++], sizeof events[0], "%s %s (%s)", type_name(type), path, (const char *)context);
	}
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&mutex);
}

static struct timespec deadline(void) {
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += event_patience_s;
	return at;
}

static void expect_event(void) {
	struct timespec at = deadline();
	pthread_mutex_lock(&mutex);
	while (events_out == events_in)
		if (pthread_cond_timedwait(&arrived, &mutex, &at) != 0) break;
	if (events_out == events_in)
		printf("  event: NONE CAME\n");
	else
		printf("  event: %s\n", events[events_out++]);
	pthread_mutex_unlock(&mutex);
}

static zhandle_t *connect_to(const char *address) {
	struct timespec at = deadline();
	pthread_mutex_lock(&mutex);
	session_ready = 0;
	pthread_mutex_unlock(&mutex);
	zhandle_t *zh = zookeeper_init(address, watch, session_timeout_ms, NULL, "session", 0);
	if (zh == NULL) {
		perror("zookeeper_init");
		exit(1);
	}
	pthread_mutex_lock(&mutex);
	while (!session_ready)
		if (pthread_cond_timedwait(&arrived, &mutex, &at) != 0) {
			fprintf(stderr, "no session at %s\n", address);
			exit(1);
		}
	pthread_mutex_unlock(&mutex);
	printf("connected, timeout %d\n", zoo_recv_timeout(zh));
	return zh;
}

static void section(const char *name) { printf("\n== %s\n", name); }

static void result(const char *what, const char *path, int code) {
	printf("%s %s: %d %s\n", what, path, code, code == ZOK ? "ok" : zerror(code));
}

static void print_stat(const struct Stat *s) {
	printf("  czxid=0x%llx mzxid=0x%llx pzxid=0x%llx ctime=%lld mtime=%lld version=%d cversion=%d aversion=%d "
		"owner=0x%llx dataLength=%d numChildren=%d\n",
		(long long)s->czxid, (long long)s->mzxid, (long long)s->pzxid, (long long)s->ctime, (long long)s->mtime,
		s->version, s->cversion, s->aversion, (long long)s->ephemeralOwner, s->dataLength, s->numChildren);
}

/* A data of NULL is a node without data, which differs from empty data. */
static int create(zhandle_t *zh, const char *path, const char *data, const struct ACL_vector *acl, int mode, long ttl) {
	char name[buffer_bytes];
	struct Stat s;
	int length = data == NULL ? -1 : (int)strlen(data);
	int code = ttl > 0 ? zoo_create2_ttl(zh, path, data, length, acl, mode, ttl, name, sizeof name, &s)
		: zoo_create2(zh, path, data, length, acl, mode, name, sizeof name, &s);
	result("create", path, code);
	if (code == ZOK) {
		printf("  as %s\n", name);
		print_stat(&s);
	}
	return code;
}

static void get(zhandle_t *zh, const char *path) {
	char data[buffer_bytes];
	int length = sizeof data;
	struct Stat s;
	int code = zoo_get(zh, path, 0, data, &length, &s);
	result("get", path, code);
	if (code == ZOK) {
		printf("  %d bytes: %.*s\n", length, length < 0 ? 0 : length, data);
		print_stat(&s);
	}
}

static void set(zhandle_t *zh, const char *path, const char *data, int version) {
	struct Stat s;
	int code = zoo_set2(zh, path, data, (int)strlen(data), version, &s);
	result("set", path, code);
	if (code == ZOK) print_stat(&s);
}

static void exists(zhandle_t *zh, const char *path) {
	struct Stat s;
	int code = zoo_exists(zh, path, 0, &s);
	result("exists", path, code);
	if (code == ZOK) print_stat(&s);
}

static void erase(zhandle_t *zh, const char *path, int version) {
	result("delete", path, zoo_delete(zh, path, version));
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void children(zhandle_t *zh, const char *path) {
	struct String_vector names;
	struct Stat s;
	int code = zoo_get_children2(zh, path, 0, &names, &s);
	result("children", path, code);
	if (code != ZOK) return;
	/* No server promises an order. */
	qsort(names.data, (size_t)names.count, sizeof names.data[0], by_name);
	for (int i = 0; i < names.count; i++) printf("  %s\n", names.data[i]);
	print_stat(&s);
	deallocate_String_vector(&names);
}

static void get_acl(zhandle_t *zh, const char *path) {
	struct ACL_vector acl;
	struct Stat s;
	int code = zoo_get_acl(zh, path, &acl, &s);
	result("getACL", path, code);
	if (code != ZOK) return;
	for (int i = 0; i < acl.count; i++)
		printf("  %s:%s perms %d\n", acl.data[i].id.scheme, acl.data[i].id.id, acl.data[i].perms);
	print_stat(&s);
	deallocate_ACL_vector(&acl);
}

static void set_acl(zhandle_t *zh, const char *path, int version, char *scheme, char *id, int perms) {
	struct ACL entry = {perms, {scheme, id}};
	struct ACL_vector acl = {1, &entry};
	result("setACL", path, zoo_set_acl(zh, path, version, &acl));
}

struct answer {
	int code, done;
	char value[buffer_bytes];
};

static void answered(int code, const void *data) {
	struct answer *a = (struct answer *)data;
	pthread_mutex_lock(&mutex);
	a->code = code;
	a->done = 1;
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&mutex);
}

static void answered_string(int code, const char *value, const void *data) {
	struct answer *a = (struct answer *)data;
	if (value != NULL) snprintf(a->value, sizeof a->value, "%s", value);
	answered(code, data);
}

static void await(const char *what, const char *path, struct answer *a) {
	struct timespec at = deadline();
	pthread_mutex_lock(&mutex);
	while (!a->done)
		if (pthread_cond_timedwait(&arrived, &mutex, &at) != 0) {
			printf("%s %s: NO ANSWER\n", what, path);
			exit(1);
		}
	pthread_mutex_unlock(&mutex);
	result(what, path, a->code);
	if (a->value[0] != 0) printf("  %s\n", a->value);
}

static void sync_path(zhandle_t *zh, const char *path) {
	struct answer a = {0};
	zoo_async(zh, path, answered_string, &a);
	await("sync", path, &a);
}

static void add_auth(zhandle_t *zh, const char *scheme, const char *credentials) {
	struct answer a = {0};
	zoo_add_auth(zh, scheme, credentials, (int)strlen(credentials), answered, &a);
	await("addauth", scheme, &a);
}

static void nodes(zhandle_t *zh) {
	section("nodes");
	create(zh, "/c", "root of this test", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c", "again", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/none/child", "x", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/a", "one", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/empty", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/null", NULL, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/../dots", "x", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	get(zh, "/c/a");
	get(zh, "/c/empty");
	get(zh, "/c/null");
	get(zh, "/c/missing");
	set(zh, "/c/a", "two", 0);
	set(zh, "/c/a", "three", 0);
	set(zh, "/c/a", "four", -1);
	set(zh, "/c/missing", "x", -1);
	exists(zh, "/c/a");
	exists(zh, "/c/missing");
	children(zh, "/c");
	children(zh, "/c/missing");
	erase(zh, "/c", -1);
	erase(zh, "/c/a", 7);
	erase(zh, "/c/a", 2);
	erase(zh, "/c/a", -1);
	sync_path(zh, "/c");
	sync_path(zh, "/c/missing");
	exists(zh, "/c");
}

static void modes(zhandle_t *zh) {
	section("modes");
	create(zh, "/c/seq-", "1", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, 0);
	create(zh, "/c/seq-", "2", &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, 0);
	create(zh, "/c/eph", "3", &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, 0);
	create(zh, "/c/eph/child", "4", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/c/container", "5", &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, 0);
	create(zh, "/c/ttl", "6", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 3600000);
	create(zh, "/c/ttl-seq-", "7", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 3600000);
	create(zh, "/c/ttl-long", "8", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 0x10000000000L);
	children(zh, "/c");
}

static void vanishing(zhandle_t *zh) {
	section("containers and nodes with a time to live vanish");
	struct Stat s;
	create(zh, "/c/container/only", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	result("watch", "/c/container", zoo_wexists(zh, "/c/container", watch, "container", &s));
	erase(zh, "/c/container/only", -1);
	expect_event();
	create(zh, "/c/ttl-short", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 2000); /* long enough to set the watch */
	result("watch", "/c/ttl-short", zoo_wexists(zh, "/c/ttl-short", watch, "ttl", &s));
	expect_event();
	exists(zh, "/c/container");
	exists(zh, "/c/ttl-short");
}

static void watches(zhandle_t *zh) {
	section("watches");
	char data[buffer_bytes];
	int length = sizeof data;
	struct Stat s;
	struct String_vector names;
	result("watch", "/c/w", zoo_wexists(zh, "/c/w", watch, "exists", &s));
	create(zh, "/c/w", "1", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	expect_event();
	result("watch", "/c/w", zoo_wget(zh, "/c/w", watch, "data", data, &length, &s));
	set(zh, "/c/w", "2", -1);
	expect_event();
	set(zh, "/c/w", "3", -1); /* fired once: nothing */
	int code = zoo_wget_children(zh, "/c/w", watch, "children", &names);
	result("watch", "/c/w", code);
	if (code == ZOK) deallocate_String_vector(&names);
	create(zh, "/c/w/child", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	expect_event();
	code = zoo_wget_children(zh, "/c/w/child", watch, "children", &names);
	result("watch", "/c/w/child", code);
	if (code == ZOK) deallocate_String_vector(&names);
	erase(zh, "/c/w/child", -1);
	expect_event();
	length = sizeof data;
	result("watch", "/c/w", zoo_wget(zh, "/c/w", watch, "removed", data, &length, &s));
	result("remove watches", "/c/w", zoo_remove_watches(zh, "/c/w", ZWATCHTYPE_DATA, watch, "removed", 0));
	result("remove watches", "/c/w", zoo_remove_watches(zh, "/c/w", ZWATCHTYPE_DATA, watch, "removed", 0));
	erase(zh, "/c/w", -1);
}

static void multi(zhandle_t *zh, const char *name, int last_version) {
	char created[buffer_bytes], sequential[buffer_bytes];
	struct Stat s;
	zoo_op_t ops[5];
	zoo_op_result_t results[5];
	memset(results, 0, sizeof results);
	zoo_create_op_init(&ops[0], "/c/m", "1", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, created, sizeof created);
	zoo_set_op_init(&ops[1], "/c/m", "22", 2, 0, &s);
	zoo_create_op_init(&ops[2], "/c/m/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, sequential, sizeof sequential);
	zoo_check_op_init(&ops[3], "/c/m", last_version);
	zoo_delete_op_init(&ops[4], "/c/null", -1);
	int code = zoo_multi(zh, 5, ops, results);
	result("multi", name, code);
	for (int i = 0; i < 5; i++) printf("  op %d: %d\n", i, results[i].err);
	if (code == ZOK) {
		printf("  created %s, %s\n", created, sequential);
		print_stat(&s);
	}
}

static void multis(zhandle_t *zh) {
	section("multi");
	multi(zh, "with a wrong check", 9);
	exists(zh, "/c/m");
	exists(zh, "/c/null");
	multi(zh, "whole", 1);
	get(zh, "/c/m");
	children(zh, "/c/m");
	multi(zh, "again", 1);
	result("multi", "of nothing", zoo_multi(zh, 0, NULL, NULL));
}

static void acls(zhandle_t *zh, const char *address) {
	section("access control");
	struct ACL nobody_knows = {ZOO_PERM_ALL, {"nosuchscheme", "x"}};
	struct ACL_vector bad = {1, &nobody_knows}, none = {0, NULL};
	create(zh, "/c/own", "secret", &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, 0);
	create(zh, "/c/bad-acl", "", &bad, ZOO_PERSISTENT, 0);
	create(zh, "/c/no-acl", "", &none, ZOO_PERSISTENT, 0);
	add_auth(zh, "digest", "alice:secret");
	create(zh, "/c/own", "secret", &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, 0);
	get_acl(zh, "/c/own");
	create(zh, "/c/read", "public", &ZOO_READ_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	set(zh, "/c/read", "x", -1);
	create(zh, "/c/read/child", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	set_acl(zh, "/c/read", -1, "world", "anyone", ZOO_PERM_ALL);
	set_acl(zh, "/c/own", 5, "auth", "", ZOO_PERM_ALL);
	set_acl(zh, "/c/own", 0, "auth", "", ZOO_PERM_READ | ZOO_PERM_WRITE | ZOO_PERM_ADMIN);
	get_acl(zh, "/c/own");
	set_acl(zh, "/c/missing", -1, "world", "anyone", ZOO_PERM_ALL);

	zhandle_t *other = connect_to(address);
	get(other, "/c/own");
	exists(other, "/c/own");
	set(other, "/c/own", "x", -1);
	children(other, "/c/own");
	get_acl(other, "/c/own");
	set_acl(other, "/c/own", -1, "world", "anyone", ZOO_PERM_ALL);
	create(other, "/c/own/child", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	add_auth(other, "digest", "alice:wrong");
	get(other, "/c/own");
	add_auth(other, "digest", "super:test");
	get(other, "/c/own");
	get_acl(other, "/c/own");
	zookeeper_close(other);

	other = connect_to(address);
	add_auth(other, "nosuchscheme", "x");
	printf("state is auth failed: %s\n", zoo_state(other) == ZOO_AUTH_FAILED_STATE ? "yes" : "no");
	zookeeper_close(other);
}

static void quota(zhandle_t *zh) {
	section("quota");
	create(zh, "/q", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/zookeeper/quota/q", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/zookeeper/quota/q/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3",
		&ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/zookeeper/quota/q/zookeeper_stats", "count=1,bytes=0", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/q/1", "12345", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	set(zh, "/q/1", "12345678901", -1);
	create(zh, "/q/2", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	create(zh, "/q/3", "", &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, 0);
	get(zh, "/zookeeper/quota/q/zookeeper_stats");
	erase(zh, "/q/2", -1);
	get(zh, "/zookeeper/quota/q/zookeeper_stats");
}

/* The session's ephemerals go with it, and another session is told. */
static void last_words(zhandle_t *zh, const char *address) {
	section("end of a session");
	struct Stat s;
	zhandle_t *other = connect_to(address);
	sync_path(other, "/c");
	result("watch", "/c/eph", zoo_wexists(other, "/c/eph", watch, "ephemeral", &s));
	zookeeper_close(zh);
	expect_event();
	children(other, "/c");
	zookeeper_close(other);
}

int main(int argc, char **argv) {
	if (argc != 2) {
		fprintf(stderr, "usage: %s host:port\n", argv[0]);
		return 2;
	}
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	zhandle_t *zh = connect_to(argv[1]);
	nodes(zh);
	modes(zh);
	vanishing(zh);
	watches(zh);
	multis(zh);
	acls(zh, argv[1]);
	quota(zh);
	last_words(zh, argv[1]);
	return 0;
}
