/*
 * Logs in at the server argv[1] by GSSAPI with Apache's C client, which does it with Cyrus SASL, and prints who "auth"
 * stands for in an ACL: "sasl: NAME".
 *
 * The server's principal is zookeeper/localhost; the ticket is that of the environment.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zookeeper.h>

enum { session_timeout_ms = 10000, patience_s = 20, name_bytes = 256 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int state;

static void watch(zhandle_t *zh, int type, int now, const char *path, void *context) {
	(void)zh, (void)path, (void)context;
	if (type != ZOO_SESSION_EVENT) return;
	pthread_mutex_lock(&mutex);
	state = now;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void check(const char *what, int code) {
	if (code == ZOK) return;
	fprintf(stderr, "%s: %s\n", what, zerror(code));
	exit(1);
}

int main(int argc, char **argv) {
	if (argc != 2) return 2;
	if (sasl_client_init(NULL) != SASL_OK) check("sasl_client_init", ZSYSTEMERROR);
	zoo_sasl_params_t params = {.service = "zookeeper", .host = "localhost", .mechlist = "GSSAPI"};
	zhandle_t *zh = zookeeper_init_sasl(argv[1], watch, session_timeout_ms, NULL, NULL, 0, NULL, &params);
	if (zh == NULL) check("zookeeper_init_sasl", ZSYSTEMERROR);

	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += patience_s;
	pthread_mutex_lock(&mutex);
	while (state != ZOO_CONNECTED_STATE && state != ZOO_AUTH_FAILED_STATE)
		if (pthread_cond_timedwait(&changed, &mutex, &end) != 0) check("connect", ZOPERATIONTIMEOUT);
	if (state == ZOO_AUTH_FAILED_STATE) check("log in", ZAUTHFAILED);
	pthread_mutex_unlock(&mutex);

	char path[name_bytes];
	struct ACL_vector acl;
	struct Stat stat;
	check("create", zoo_create(zh, "/c", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL, path, sizeof path));
	check("getACL", zoo_get_acl(zh, path, &acl, &stat));
	for (int i = 0; i < acl.count; i++) printf("%s: %s\n", acl.data[i].id.scheme, acl.data[i].id.id);
	return zookeeper_close(zh);
}
