package server

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/zooid-project/zooid/internal/auth"
)

// findRule returns the function that finds the rule of a name for ids in ACLs as this program has it, or nil. A rule
// that panics, which it does on every replica, admits nobody; the first time in the life of a tree is told.
func findRule(log *slog.Logger) func(name string) auth.Rule {
	return func(name string) auth.Rule {
		rule := auth.FindRule(name)
		if rule == nil {
			return nil
		}
		var once sync.Once
		return func(id, entry string) (yes bool) {
			defer func() {
				if cause := recover(); cause != nil {
					yes = false
					once.Do(func() {
						log.Error("a rule for ids in ACLs panicked and admits nobody: its provider has a bug", "rule", name,
							"id", fmt.Sprintf("%.80q", id), "entry", fmt.Sprintf("%.80q", entry), "panic", fmt.Sprintf("%.200v", cause),
							"code", "ZD-3142")
					})
				}
			}()
			return rule(id, entry)
		}
	}
}
