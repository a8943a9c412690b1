#!/bin/sh
# Builds Apache's C client with Cyrus SASL, without which Debian builds it, from Debian's source: build.sh FOLDER JARS
# leaves libzookeeper.a and the headers in FOLDER. JARS has the jute compiler.
set -eu

folder=$1
jars=$2
mkdir -p "$folder/lists/partial" "$folder/sources"
trap 'rm -rf "$folder/lists" "$folder/sources"' EXIT

# The machine's own places of Debian's packages, for their sources.
if [ -f /etc/apt/sources.list.d/debian.sources ]; then
	sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$folder/sources/debian.sources"
fi
if [ -f /etc/apt/sources.list ]; then
	sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$folder/sources/debian.list"
fi
apt="apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$folder/sources -o Dir::State::Lists=$folder/lists -o APT::Sandbox::User=root"
$apt update
(cd "$folder/sources" && $apt source --download-only zookeeper && tar -xzf zookeeper_*.orig.tar.gz --strip-components=1)

client=$folder/sources/zookeeper-client/zookeeper-client-c
mkdir "$client/generated"
(cd "$client/generated" && java -cp "$jars/*" org.apache.jute.compiler.generated.Rcc -l c ../../../zookeeper-jute/src/main/resources/zookeeper.jute)
# What autoconf would find out on Debian.
{
	echo '#define PACKAGE_STRING "zookeeper C client"'
	for name in CYRUS_SASL_H ARPA_INET_H GETCWD GETHOSTNAME GETLOGIN GETPWUID_R GETUID NETDB_H NETINET_IN_H POLL STRING_H SYS_SOCKET_H \
		SYS_TIME_H SYS_UTSNAME_H UNISTD_H; do
		echo "#define HAVE_$name 1"
	done
} >"$client/generated/config.h"
cd "$client/src"
for file in zookeeper recordio zk_log zk_hashtable addrvec zk_sasl mt_adaptor hashtable/hashtable hashtable/hashtable_itr ../generated/zookeeper.jute; do
	# The headers ask about HAVE_CYRUS_SASL_H before they include config.h.
	gcc -std=gnu11 -O1 -w -DTHREADED -include ../generated/config.h -I../include -I../generated -I. -c "$file.c" -o "$folder/$(basename "$file").o"
done
ar rcs "$folder/libzookeeper.a" "$folder"/*.o
cp ../include/*.h ../generated/zookeeper.jute.h "$folder/"
rm "$folder"/*.o
