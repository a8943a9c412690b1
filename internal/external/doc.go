// Package external implements authentication schemes whose credentials are judged by a program or an HTTP endpoint
// that knows nothing about ZooKeeper:
//
//	authProvider.ldap=exec:/usr/local/lib/judge-ldap
//	authProvider.corp=https://auth.example.com/zookeeper
//
// The server sends a question, one line of JSON, and gets an answer, also one line:
//
//	{"request":7,"scheme":"ldap","credential":"YW5uOnNlY3JldA==","address":"10.0.0.7"}
//	{"request":7,"ids":["ann","group-staff"],"seconds":3600}
//	{"request":7,"refused":"wrong password"}
//
// A program reads questions from its standard input and answers each on its standard output before it reads the next
// one. It ends when its input ends. Under load several copies of it run. An endpoint gets the question as the body of
// a POST and answers with the status 200.
//
// An answer has ids or refused. The identities are valid for the given seconds, or without them as long as the
// connection. With "super":true the client is a superuser.
//
// Any other outcome (no answer in time, an answer that is too long or belongs to another request, unknown fields)
// admits nobody: the server closes the connection without a reply, and the client tries again. A program that fails in
// this way is killed, and restarted for the next question.
package external
