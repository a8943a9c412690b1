#!/usr/bin/env bash
# Writes man pages, made of the commands' own help, the documentation as HTML, and completions into DIRECTORY/man,
# DIRECTORY/html and DIRECTORY/completion. Links to what isn't among the pages lead to the project's site, at REF.
#   deploy/package/pages.sh PROGRAM DAY DIRECTORY REF
set -euo pipefail
program=$(realpath "$1") day=$2 ref=$4
mkdir -p "$3/man" "$3/html" "$3/completion"
directory=$(realpath "$3")
cd "$(dirname "$0")/../.."
"${GO:-go}" build -o "$directory/pack" ./deploy/pack
"$directory/pack" man "$program" "$day" "$directory/man"
"$directory/pack" html . "$ref" "$directory/html"
"$program" completion bash >"$directory/completion/zooid.bash"
"$program" completion zsh >"$directory/completion/_zooid"
"$program" completion fish >"$directory/completion/zooid.fish"
