#!/bin/sh
# Prints the commit that this change begins at: where it left the main branch, or the commit before if it is on it.
for branch in origin/main main; do
	base=$(git merge-base HEAD "$branch" 2>/dev/null) || continue
	[ "$base" = "$(git rev-parse HEAD)" ] || { echo "$base"; exit; }
done
echo HEAD~1
