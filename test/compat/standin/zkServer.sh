#!/bin/sh
# Stands in for Apache's zkServer.sh start-foreground CONFIG, with the java beside it and the class path in CLASSPATH.
set -eu
# shellcheck disable=SC2086 # a list of options
exec "$(dirname "$0")/java" ${SERVER_JVMFLAGS:-} org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
