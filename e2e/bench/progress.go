package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far something is that takes long: as a bar on a terminal, and otherwise as
// one line for each step that has a text. It is safe for concurrent use.
type progress struct {
	what string
	out  io.Writer
	// bar is nil if out is no terminal.
	bar *progressbar.ProgressBar
}

// newProgress begins to show the progress of so many steps on standard error.
func newProgress(what string, steps int) *progress {
	return progressOn(os.Stderr, term.IsTerminal(int(os.Stderr.Fd())), what, steps)
}

func progressOn(out io.Writer, terminal bool, what string, steps int) *progress {
	p := &progress{what: what, out: out}
	if terminal {
		p.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

// step notes that one more step is done. The text, if there is one, is about that step.
func (p *progress) step(format string, args ...any) {
	switch {
	case p.bar != nil:
		_ = p.bar.Add(1) // it fails behind the last step, and says nothing then
	case format != "":
		_, _ = fmt.Fprintf(p.out, "%s: %s\n", p.what, fmt.Sprintf(format, args...))
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
