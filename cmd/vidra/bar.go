package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// bar shows the progress of a command on a terminal. A nil bar shows nothing.
type bar struct {
	out  io.Writer
	what string
	bar  *progressbar.ProgressBar
}

// newBar returns a bar, or nil if errOut is no terminal.
func newBar(errOut io.Writer) *bar {
	if w, ok := errOut.(*terminal.Writer); ok {
		errOut = w.Out // a bar has no text of a cluster
	}
	file, ok := errOut.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &bar{out: file}
}

// set shows that so many steps are done; all is -1 where their number is unknown.
func (b *bar) set(what string, done, all int64) {
	if b == nil {
		return
	}
	b.begin(what, all)
	_ = b.bar.Set64(done) // an error cannot be reported
}

// begin starts a bar, unless it is the present one.
func (b *bar) begin(what string, all int64, options ...progressbar.Option) {
	if b.bar != nil && b.what == what {
		return
	}
	b.clear()
	b.what = what
	b.bar = progressbar.NewOptions64(all, append([]progressbar.Option{
		progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(render.Line(what)), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
	}, options...)...)
}

// reading returns a writer that shows how many bytes were read; nil for none.
func (b *bar) reading(name string, size int64) io.Writer {
	b.begin("reading "+name, size, progressbar.OptionShowBytes(true))
	return b.bar
}

// clear removes the bar.
func (b *bar) clear() {
	if b == nil || b.bar == nil {
		return
	}
	_ = b.bar.Clear() // an error cannot be reported
	b.bar = nil
}
