# Completion of zooid's commands, for fish.
function __zooid_words
    set -l words (commandline -opc)
    if test (count $words) -le 1
        string split ' ' -- '@COMMANDS@'
        return
    end
    test $words[2] = cli; or return
    set -l command ''
    set -l valued 0
    for word in $words[3..-1]
        if test $valued = 1
            set valued 0
        else if string match -qr -- '^(@VALUED@)$' $word
            set valued 1
        else if not string match -q -- '-*' $word
            set command $word
            break
        end
    end
    test $valued = 0; or return
    set -l dashed 0
    string match -q -- '-*' (commandline -ct); and set dashed 1
    if test -z "$command"
        if test $dashed = 1
            string split ' ' -- '@FLAGS@'
        else
            string split ' ' -- '@WORDS@'
        end
        return
    end
    test $dashed = 1; or return
    switch $command
        @CASES@
    end
end
complete -c zooid -n __fish_use_subcommand -f
complete -c zooid -a '(__zooid_words)'
