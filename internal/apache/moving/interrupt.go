//go:build unix

package moving

import (
	"fmt"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
)

// left returns the state in which a second interrupt leaves a command, and what to do. It is called while run runs.
func (f *exportFlags) left() string {
	return fmt.Sprintf("Nothing was exported, unless %s exists. Run the same command again, or remove %s",
		filepath.Join(f.o.To, files.Version2), filepath.Join(f.o.To, apache.UnfinishedExport))
}

func (f *compareFlags) left() string { return "Nothing was changed. Run the same command again" }

func (f *followFlags) left() string {
	return "The copy is as after a crash. Run the same command again: it continues with the copy"
}

func (r *backRun) left() string {
	return "The observers keep what they have. Run the same command again: it sends them what they lack"
}

func (r *switchRun) left() string {
	states := proof.States{
		Final: stepRelease, Undo: "start Apache's servers, and run it with -undo",
		Before: "Apache's servers were being stopped, and no Zooid server was released",
		After:  "Zooid's servers were being released, and may serve. Don't start Apache's servers",
	}
	return states.Left(filepath.Join(r.words[1], journalName))
}

func (r *returnRun) left() string {
	cfg, err := config.LoadAny(r.file, nil)
	if err != nil {
		return err.Error()
	}
	states := proof.States{
		Final: stepStart, Undo: "start Zooid's servers",
		Before: "Zooid's servers were being stopped, and no Apache server was started",
		After:  "Apache's servers were being started, and may serve. Don't start Zooid's servers",
	}
	return states.Left(filepath.Join(cfg.Storage.DataDir, returnJournal))
}
