#!/usr/bin/env bash
# Writes man pages, made of the commands' own help, and completions into DIRECTORY/man and DIRECTORY/completion.
#   deploy/package/pages.sh PROGRAM DAY DIRECTORY
set -euo pipefail
program=$(realpath "$1") day=$2
mkdir -p "$3/man" "$3/completion"
directory=$(realpath "$3")
cd "$(dirname "$0")/../.."
"${GO:-go}" run ./deploy/pack man "$program" "$day" "$directory/man"
"$program" completion bash >"$directory/completion/zooid.bash"
"$program" completion zsh >"$directory/completion/_zooid"
"$program" completion fish >"$directory/completion/zooid.fish"
