/*
 * Logs in at the server argv[1]:argv[2] by GSSAPI with Cyrus SASL, as Apache's C client does where it is built with
 * that (Debian's isn't), and prints who the server says it is: "sasl: NAME".
 *
 * The service is zookeeper, and the host argv[1]; the ticket is that of the environment.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <sasl/sasl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { frame_max = 1 << 16, op_sasl = 102, op_who_am_i = 107, auth_steps_max = 16 };

static int sock;
static char frame[frame_max];
static size_t used;

static void die(const char *what, const char *why) {
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void put_int(int32_t n) {
	uint32_t be = htonl((uint32_t)n);
	memcpy(frame + used, &be, sizeof be);
	used += sizeof be;
}

static void put_bytes(const void *b, size_t n) {
	if (used + n > sizeof frame) die("request", "it is too long");
	memcpy(frame + used, b, n);
	used += n;
}

/* Sends the frame, whose length comes first, and reads the answer into it. */
static size_t exchange(void) {
	uint32_t size = htonl((uint32_t)(used - 4)), got;
	memcpy(frame, &size, sizeof size);
	if (write(sock, frame, used) != (ssize_t)used) die("write", "the connection has ended");
	if (recv(sock, &got, sizeof got, MSG_WAITALL) != sizeof got) die("read", "the connection has ended");
	got = ntohl(got);
	if (got > sizeof frame || recv(sock, frame, got, MSG_WAITALL) != (ssize_t)got) die("read", "no whole frame");
	return got;
}

static int32_t int_at(size_t at) {
	uint32_t be;
	memcpy(&be, frame + at, sizeof be);
	return (int32_t)ntohl(be);
}

static void begin(int32_t xid, int32_t op) {
	used = 4;
	put_int(xid);
	put_int(op);
}

/* The reply's header has xid, zxid and code; its body begins here. */
enum { code_at = 12, body_at = 16 };

int main(int argc, char **argv) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	if (argc != 3 || getaddrinfo(argv[1], argv[2], &hints, &found) != 0) die("usage", "cyrus HOST PORT");
	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(sock, found->ai_addr, found->ai_addrlen) != 0) die("connect", argv[2]);

	static const char zeros[16];
	used = 4;
	put_int(0);            /* protocol version */
	put_bytes(zeros, 8);   /* last zxid seen */
	put_int(10000);        /* timeout, ms */
	put_bytes(zeros, 8);   /* session */
	put_int(sizeof zeros); /* password */
	put_bytes(zeros, sizeof zeros);
	put_bytes(zeros, 1); /* read-only */
	exchange();

	if (sasl_client_init(NULL) != SASL_OK) die("sasl_client_init", "it fails");
	sasl_conn_t *conn;
	sasl_security_properties_t no_layer = {.max_ssf = 0, .maxbufsize = 0};
	int code = sasl_client_new("zookeeper", argv[1], NULL, NULL, NULL, 0, &conn);
	if (code != SASL_OK) die("sasl_client_new", sasl_errstring(code, NULL, NULL));
	sasl_setprop(conn, SASL_SEC_PROPS, &no_layer);
	const char *token, *mechanism;
	unsigned length;
	code = sasl_client_start(conn, "GSSAPI", NULL, &token, &length, &mechanism);
	for (int32_t step = 1; code == SASL_CONTINUE || code == SASL_OK; step++) {
		if (step > auth_steps_max) die("login", "it doesn't end");
		begin(step, op_sasl);
		put_int(token == NULL ? 0 : (int32_t)length);
		put_bytes(token == NULL ? "" : token, token == NULL ? 0 : length);
		exchange();
		if (int_at(code_at) != 0) die("login", "the server refuses it");
		if (code == SASL_OK) break;
		int32_t size = int_at(body_at);
		code = sasl_client_step(conn, frame + body_at + 4, size < 0 ? 0 : (unsigned)size, NULL, &token, &length);
	}
	if (code != SASL_OK) die("login", sasl_errdetail(conn));

	begin(100, op_who_am_i);
	exchange();
	size_t at = body_at + 4;
	for (int32_t n = int_at(body_at); n > 0; n--) {
		for (int part = 0; part < 2; part++) {
			int32_t size = int_at(at);
			printf("%.*s%s", (int)size, frame + at + 4, part == 0 ? ": " : "\n");
			at += 4 + (size_t)size;
		}
	}
	return 0;
}
