/*
 * Authenticates at the server argv[1] by the scheme "foo" of the programmer's guide with Apache's C client, and prints
 * what comes of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

enum { session_timeout_ms = 10000, patience_s = 20, name_bytes = 256 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int answer;

static const int no_answer = 1;

static void answered(int code, const void *context) {
	(void)context;
	pthread_mutex_lock(&mutex);
	answer = code;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static zhandle_t *open_as(const char *address, const char *credential) {
	zhandle_t *zh = zookeeper_init(address, NULL, session_timeout_ms, NULL, NULL, 0);
	if (zh == NULL) exit(1);
	if (credential == NULL) return zh;
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += patience_s;
	answer = no_answer;
	zoo_add_auth(zh, "foo", credential, (int)strlen(credential), answered, NULL);
	pthread_mutex_lock(&mutex);
	while (answer == no_answer)
		if (pthread_cond_timedwait(&changed, &mutex, &end) != 0) exit(1);
	pthread_mutex_unlock(&mutex);
	printf("addauth %s: %s\n", credential, zerror(answer));
	return zh;
}

int main(int argc, char **argv) {
	if (argc != 2) return 2;
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	char path[name_bytes], data[name_bytes];
	struct ACL_vector acl;
	struct Stat stat;
	int length = sizeof data;
	zhandle_t *ann = open_as(argv[1], "ann:swordfish");
	printf("create: %s\n", zerror(zoo_create(ann, "/c", "x", 1, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, path, sizeof path)));
	if (zoo_get_acl(ann, "/c", &acl, &stat) != ZOK) return 1;
	for (int i = 0; i < acl.count; i++) printf("%s:%s %d\n", acl.data[i].id.scheme, acl.data[i].id.id, acl.data[i].perms);
	zhandle_t *nobody = open_as(argv[1], NULL);
	printf("get by nobody: %s\n", zerror(zoo_get(nobody, "/c", 0, data, &length, &stat)));
	zhandle_t *bob = open_as(argv[1], "bob:swordfish");
	length = sizeof data;
	printf("get by bob: %s\n", zerror(zoo_get(bob, "/c", 0, data, &length, &stat)));
	zhandle_t *guess = open_as(argv[1], "eve:guess");
	printf("state: %s\n", zoo_state(guess) == ZOO_AUTH_FAILED_STATE ? "auth failed" : "another");
	zookeeper_close(guess);
	zookeeper_close(bob);
	zookeeper_close(nobody);
	return zookeeper_close(ann);
}
