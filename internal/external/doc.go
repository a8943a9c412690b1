// Package external serves schemes of authentication whose credentials a program or an HTTP
// endpoint judges, which knows nothing of ZooKeeper:
//
//	authProvider.ldap=exec:/usr/local/lib/judge-ldap
//	authProvider.corp=https://auth.example.com/zookeeper
//
// The server sends a question, one line of JSON, and gets an answer, one line too:
//
//	{"request":7,"scheme":"ldap","credential":"YW5uOnNlY3JldA==","address":"10.0.0.7"}
//	{"request":7,"ids":["ann","group-staff"],"seconds":3600}
//	{"request":7,"refused":"wrong password"}
//
// A program reads questions from its standard input and answers each on its standard output
// before it reads the next one; it ends when its input does. Several copies of it run if
// there is much to judge. An endpoint gets the question as the body of a POST and answers
// with the status 200.
//
// An answer has ids or refused. Seconds is how long the identities last; without it they
// last as long as the connection. With "super":true the client is a superuser.
//
// Whatever else comes (no answer in time, one that is too long, one to another request,
// unknown fields) lets nobody in: the connection ends without an answer and the client tries
// again. A program that errs so is killed, and started anew for the next question.
package external
