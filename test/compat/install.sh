#!/bin/sh
# Fetches the real clients and the real Apache ZooKeeper that judge Zooid. Says nothing when all is there.
#
# Debian 12, as root if packages are missing. What registries give goes to $ZOOID_COMPAT_CACHE
# (default: zooid-compat in the user's cache folder), the rest through apt-get.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${ZOOID_COMPAT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zooid-compat}
packages='krb5-kdc krb5-admin-server krb5-user libsasl2-dev libsasl2-modules-gssapi-mit python3-kerberos zookeeper libzookeeper-mt-dev gcc libc6-dev openjdk-17-jdk-headless maven libcurator-recipes-java libcurator-discovery-java python3-venv strace iptables iproute2 e2fsprogs prometheus'

# attempt WHAT COMMAND...: runs the command, three times if need be; shows its output only when it failed for good.
attempt() {
	what=$1
	shift
	try=1
	while ! "$@" >"$cache/install.log" 2>&1; do
		if [ "$try" -eq 3 ]; then
			echo "compat install: $what failed three times; the last attempt said:" >&2
			tail -n 20 "$cache/install.log" >&2
			echo "compat install: the command was: $*" >&2
			exit 1
		fi
		try=$((try + 1))
		sleep 3
	done
}

# stamped NAME FILE: whether NAME was installed from FILE as it is now.
stamped() { [ -f "$cache/$1/stamp" ] && cmp -s "$cache/$1/stamp" "$2"; }

# A folder is filled under another name and then renamed, so a stopped install is never taken for a whole one.
finish() {
	cp "$2" "$cache/$1.new/stamp"
	rm -rf "$cache/$1"
	mv "$cache/$1.new" "$cache/$1"
}

mkdir -p "$cache"

# One install at a time, however many test runs start together.
exec 9>"$cache/lock"
flock 9

missing=
for package in $packages; do
	case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) in
	installed) ;;
	*) missing="$missing $package" ;;
	esac
done
if [ -n "$missing" ]; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "compat install: missing packages:$missing; run as root: apt-get install$missing" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	echo "compat install: packages:$missing"
	attempt 'apt-get update' apt-get update
	# shellcheck disable=SC2086 # a list of words
	attempt 'apt-get install' apt-get install -y --no-install-recommends $missing
fi

if ! stamped apache-3.9 "$here/pom.xml"; then
	echo 'compat install: Apache ZooKeeper 3.9'
	rm -rf "$cache/apache-3.9.new"
	# -U: a download that failed once is not held against the next attempt.
	attempt 'Apache ZooKeeper 3.9 (mvn dependency:copy-dependencies)' \
		mvn -B -q -U -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/apache-3.9.new"
	finish apache-3.9 "$here/pom.xml"
fi

if ! stamped apache-admin "$here/adminjars/pom.xml"; then
	echo 'compat install: what Apache ZooKeeper needs for its admin server'
	rm -rf "$cache/apache-admin.new"
	attempt 'the admin server of Apache ZooKeeper (mvn dependency:copy-dependencies)' \
		mvn -B -q -U -f "$here/adminjars/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/apache-admin.new"
	finish apache-admin "$here/adminjars/pom.xml"
fi

# The versions whose files are moved; keep the list as in moving/apache.go.
for version in 3.5.10 3.6.4 3.7.2 3.8.4 3.9.5; do
	if ! stamped "apache-$version" "$here/moving/pom.xml"; then
		echo "compat install: Apache ZooKeeper $version"
		rm -rf "$cache/apache-$version.new"
		attempt "Apache ZooKeeper $version (mvn dependency:copy-dependencies)" \
			mvn -B -q -U -f "$here/moving/pom.xml" "-Dapache=$version" dependency:copy-dependencies -DoutputDirectory="$cache/apache-$version.new"
		finish "apache-$version" "$here/moving/pom.xml"
	fi
done

if ! stamped apache-3.9-metrics "$here/pom-metrics.xml"; then
	echo "compat install: Apache ZooKeeper's endpoint for Prometheus"
	rm -rf "$cache/apache-3.9-metrics.new"
	attempt "Apache's endpoint for Prometheus (mvn dependency:copy-dependencies)" \
		mvn -B -q -U -f "$here/pom-metrics.xml" dependency:copy-dependencies -DoutputDirectory="$cache/apache-3.9-metrics.new"
	finish apache-3.9-metrics "$here/pom-metrics.xml"
fi

if ! stamped cclient "$here/cclient/build.sh"; then
	echo "compat install: Apache's C client with SASL"
	rm -rf "$cache/cclient.new"
	attempt "Apache's C client with SASL (its source through apt-get, and gcc)" \
		sh "$here/cclient/build.sh" "$cache/cclient.new" "$cache/apache-3.9"
	finish cclient "$here/cclient/build.sh"
fi

if ! stamped kazoo "$here/requirements.txt"; then
	echo 'compat install: kazoo'
	# A virtual environment holds its own path: it is made in place, and the stamp comes last.
	rm -rf "$cache/kazoo"
	attempt 'the virtual environment for kazoo (python3 -m venv)' python3 -m venv --clear "$cache/kazoo"
	attempt 'kazoo (pip install)' "$cache/kazoo/bin/pip" install --quiet --disable-pip-version-check \
		--no-binary kazoo -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$cache/kazoo/stamp"
fi
