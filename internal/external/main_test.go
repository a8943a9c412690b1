package external

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain is also the program that is asked: TEST judge MANNER FILE. Copies of it write
// their process ids into FILE.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "judge" {
		judge(os.Args[2], os.Args[3])
		return
	}
	m.Run()
}

// judge answers as told: everybody with the password "secret" is in.
func judge(manner, pids string) {
	f, err := os.OpenFile(pids, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var q question
		if json.Unmarshal(in.Bytes(), &q) != nil {
			return
		}
		name, word, _ := strings.Cut(string(q.Credential), ":")
		switch manner {
		case "hang":
			time.Sleep(time.Hour)
		case "die":
			return
		case "garbage":
			fmt.Println("\x00\xff{{{")
		case "megabytes":
			fmt.Println(strings.Repeat("x", 4<<20))
		case "endless":
			for {
				fmt.Print(strings.Repeat("x", 4<<10))
			}
		case "twice":
			fmt.Printf("{\"request\":%d,\"ids\":[\"ann\"]}\n{\"request\":%d,\"ids\":[\"root\"]}\n", q.Request, q.Request+1)
		case "late":
			fmt.Printf("{\"request\":%d,\"ids\":[\"ann\"]}\n", q.Request-1)
		case "once":
			fmt.Printf("{\"request\":%d,\"ids\":[%q]}\n", q.Request, name)
			return
		case "environment":
			fmt.Printf("{\"request\":%d,\"ids\":[%q]}\n", q.Request, strings.Join(os.Environ(), " "))
		default:
			switch {
			case word == "secret":
				fmt.Printf("{\"request\":%d,\"ids\":[%q,\"staff\"],\"super\":%v,\"seconds\":60}\n", q.Request, name, name == "root")
			case word == "hang":
				time.Sleep(time.Hour)
			case word == "echo":
				fmt.Printf("{\"request\":%d,\"refused\":%q}\n", q.Request, string(q.Credential)+" is wrong")
			default:
				fmt.Printf("{\"request\":%d,\"refused\":\"wrong password\"}\n", q.Request)
			}
		}
	}
}
