package pages

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// openHTML prints where a page is as HTML, or the entry of a code; on a terminal a browser shows it.
func openHTML(all []page, args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 {
		fmt.Fprint(stderr, "zooid docs: -html takes one page or code\n\n"+help)
		return 2
	}
	file, entry := "index.html", ""
	if len(args) == 1 {
		names, found := []string{"troubleshooting"}, ""
		for i := range all {
			names = append(names, all[i].name)
		}
		for _, name := range names {
			if strings.EqualFold(name, strings.TrimSuffix(args[0], ".md")) {
				found = name
			}
		}
		if e, ok := runbook.Find(args[0]); ok {
			found, entry = "troubleshooting", "#"+strings.ToLower(e.Code)
		}
		if found == "" {
			return unknown(stderr, args[0], names)
		}
		file = found + ".html"
	}
	program, err := os.Executable()
	if err != nil { // there is no /proc
		program, err = exec.LookPath(os.Args[0])
	}
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid docs:", runbook.Text(err))
		return 1
	}
	at := htmlBeside(program, file)
	if at == "" {
		fmt.Fprintf(stderr, "zooid docs: there is no HTML beside %s: the packages, the archives and make install bring it\n"+
			"  hint: zooid docs shows the same pages as text\n", program)
		return 1
	}
	fmt.Fprintln(stdout, at+entry)
	if terminal.Is(stdout) {
		browse(at+entry, stdout)
	}
	return 0
}

// htmlBeside returns the path of a page in the HTML that was installed or unpacked with the program; "" if there is no
// such file.
func htmlBeside(program, file string) string {
	dir := filepath.Dir(program)
	installed := filepath.Join(filepath.Dir(dir), "share", "doc", "zooid", "html")
	for _, books := range []string{installed, filepath.Join(dir, "html")} {
		at := filepath.Join(books, file)
		if st, err := os.Stat(at); err == nil && st.Mode().IsRegular() {
			return at
		}
	}
	return ""
}

// browse shows a file in the user's browser, if there is one.
func browse(file string, stdout io.Writer) {
	usual := "xdg-open"
	if runtime.GOOS == "darwin" {
		usual = "open"
	}
	words := wordsOf("BROWSER", usual)
	path, err := exec.LookPath(words[0])
	if err != nil {
		return
	}
	browser := exec.Command(path, append(words[1:], "file://"+file)...)
	browser.Stdin, browser.Stdout, browser.Stderr = os.Stdin, terminal.FileOf(stdout), os.Stderr
	_ = browser.Run() // the path is printed, whatever the browser does
}
