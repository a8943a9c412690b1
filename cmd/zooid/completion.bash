# Completion of zooid's commands, for bash; zsh takes it with bashcompinit.
_zooid() {
	local word=${COMP_WORDS[COMP_CWORD]} words='' command='' i
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		words='@COMMANDS@'
	elif [ "${COMP_WORDS[1]}" = cli ]; then
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			: | =) ((i++)) ;; # within host:port, which bash takes apart
			@VALUED@) ((i++)) ;;
			-*) ;;
			*)
				command=${COMP_WORDS[i]}
				break
				;;
			esac
		done
		case $command in
		'')
			words='@WORDS@'
			case $word in -*) words='@FLAGS@' ;; esac
			;;
		@CASES@
		esac
		if [ -n "$command" ]; then
			case $word in -*) ;; *) words='' ;; esac
		fi
	fi
	COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _zooid zooid
