# Read by scripts that build this checkout's server without some of its code: an overlay for go build, in the folder $dir.

# without FILE EXPRESSION... leaves out of FILE what sed's expressions change; each must change something.
replace=
without() {
	file=$1
	shift
	out=$dir/$(echo "$file" | tr / _)
	cp "$file" "$out"
	for expression; do
		sed "$expression" "$out" >"$out.new"
		if cmp -s "$out" "$out.new"; then
			echo "$0: $file has nothing to change for $expression" >&2
			exit 1
		fi
		mv "$out.new" "$out"
	done
	replace="$replace${replace:+,}\"$PWD/$file\":\"$out\""
}

# fits ends the script if CHECK is set, after compiling the server without that code: that the expressions still fit.
fits() {
	if [ -n "${CHECK:-}" ]; then
		go build -overlay "$(overlay)" ./internal/server
		exit
	fi
}

# overlay prints the file for go build -overlay.
overlay() {
	echo "{\"Replace\":{$replace}}" >"$dir/overlay.json"
	echo "$dir/overlay.json"
}
