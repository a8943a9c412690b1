#!/usr/bin/env bash
# What the compiler and vet don't find. The tools are run at pinned versions and are no dependencies of the module.
#   test/lint.sh         staticcheck and errorlint, and whether the scripts that measure costs still fit the code; fails if
#                        they find something
#   test/lint.sh vuln    known vulnerabilities in what the binary uses, where the database can be reached
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
errorlint=github.com/polyfloyd/go-errorlint@v1.8.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0

if [ "${1:-}" = vuln ]; then
	if report=$(timeout 120 "$go" run $govulncheck ./cmd/... 2>&1); then
		echo "no known vulnerabilities are reached"
	elif grep -qx 'exit status 3' <<<"$report"; then # it found some
		echo "$report"
		exit 1
	else
		echo "skipped: the database of vulnerabilities can't be read: $(grep -m1 govulncheck: <<<"$report" || true)"
	fi
	exit
fi
# The modules of the client's hooks are linted as the client is.
for each in . zk/zkotel zk/zkprom; do
	(
		cd $each
		"$go" run $staticcheck ./...
		# Errors are compared by errors.Is and errors.As alone.
		"$go" run $errorlint -test=false ./...
	)
done
for cost in limits metrics; do
	CHECK=1 test/$cost-cost.sh
done
