package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// progressEvery is how often a build that takes long says how far it is.
const progressEvery = 15 * time.Second

// tempPattern names the folders that builds go into first.
const tempPattern = ".build-*"

// buildOptions says what goBuild builds.
type buildOptions struct {
	// what it is, for progress and errors.
	what string
	// dir is the folder of the module.
	dir string
	// pkg is the main package.
	pkg string
	// target is the path of the executable.
	target string
	// args of `go build`, and additions to the environment.
	args, env []string
	// out receives the progress.
	out io.Writer
}

// goBuild runs `go build` into a temporary name beside the target and renames
// the result, so that the target is either whole or not there. A target that is
// up to date is not linked again.
func goBuild(ctx context.Context, o buildOptions) error {
	tmp, err := os.MkdirTemp(filepath.Dir(o.target), tempPattern)
	if err != nil {
		return fmt.Errorf("building %s: %w", o.what, err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a leftover is harmless

	built := filepath.Join(tmp, filepath.Base(o.target))
	// Linking takes seconds. `go build` leaves an executable as it is when the build ID in it
	// is that of the source, and otherwise writes another file.
	_ = os.Link(o.target, built) // without it, all is built
	args := append([]string{"build", "-v", "-o", built}, o.args...)
	cmd := exec.CommandContext(ctx, "go", append(args, o.pkg)...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), o.env...)
	// The go command ends its compilers when it is interrupted, not when killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	p := &progress{what: o.what, out: o.out, start: time.Now()}
	cmd.Stdout, cmd.Stderr = p, p
	stop := p.report()
	err = cmd.Run()
	stop()

	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("building %s: %w", o.what, ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("building %s: the go command is not in PATH: install Go, or set %s: %w", o.what, assetsEnv, err)
	case err != nil:
		return fmt.Errorf("building %s: %w\n%s", o.what, err, p.tail())
	}
	if err := os.Rename(built, o.target); err != nil {
		return fmt.Errorf("building %s: %w", o.what, err)
	}
	return nil
}

// progress reads what `go build -v` prints: one line for each package, in
// between what the compiler and the module loader have to say.
type progress struct {
	what  string
	out   io.Writer
	start time.Time

	// mu guards what stands below.
	mu       sync.Mutex
	packages int
	modules  int
	rest     bytes.Buffer
	other    []string
}

// Write takes a part of the output of `go build`.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest.Write(b)
	for {
		line, err := p.rest.ReadString('\n')
		if err != nil {
			p.rest.Reset()
			p.rest.WriteString(line)
			return len(b), nil
		}
		p.countLocked(strings.TrimSpace(line))
	}
}

func (p *progress) countLocked(line string) {
	switch {
	case line == "":
	case strings.HasPrefix(line, "go: downloading "):
		p.modules++
	case !strings.HasPrefix(line, "#") && !strings.ContainsAny(line, " \t:"):
		p.packages++
	default:
		p.other = append(p.other, line)
	}
}

// report says what is being built, and from then on how far it is, until the
// returned function is called.
func (p *progress) report() func() {
	_, _ = fmt.Fprintf(p.out, "building %s\n", p.what)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_, _ = fmt.Fprintln(p.out, p)
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// String says how far the build is.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf("building %s: %s, %d packages compiled", p.what, time.Since(p.start).Round(time.Second), p.packages)
	if p.modules > 0 {
		s += fmt.Sprintf(", %d modules downloaded", p.modules)
	}
	return s
}

// tail returns the end of what the compiler and the module loader said.
func (p *progress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const most = 40
	return strings.Join(p.other[max(0, len(p.other)-most):], "\n")
}

// BuildOperator builds ./cmd/operator of the checkout that the working
// directory is in and returns the path of the executable, vidra-operator, in
// the user's cache folder. With race it is built with the race detector, which
// needs a C compiler. It blocks; what takes long is told on out, which may be
// nil.
func BuildOperator(ctx context.Context, out io.Writer, race bool) (string, error) {
	return buildCommand(ctx, out, race, "operator", "vidra-operator")
}

// BuildCLI builds ./cmd/vidra as BuildOperator builds ./cmd/operator, and returns the path of
// the executable, vidra.
func BuildCLI(ctx context.Context, out io.Writer, race bool) (string, error) {
	return buildCommand(ctx, out, race, "vidra", "vidra")
}

// Tags are the build tags of the programs, as in the Makefile: without Go plugins of kustomize, which Vidra never loads, the linker drops
// unused code.
const Tags = "kustomize_disable_go_plugin_support"

// BuiltVariable is the environment variable that has the tests use the programs that e2e/testenv/prepare has
// built, without checking that they are up to date. A check takes a second of processor time in each package.
const BuiltVariable = "VIDRA_TESTS_BUILT"

// buildCommand builds a folder of ./cmd, and returns the path of the executable of the name.
func buildCommand(ctx context.Context, out io.Writer, race bool, folder, name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", cacheError("the user's cache folder", err)
	}
	// Each checkout has a folder of its own, so that two do not run each
	// other's programs.
	key := fnv.New32a()
	_, _ = io.WriteString(key, root)
	dir := filepath.Join(cache, "vidra", "operator", fmt.Sprintf("%08x", key.Sum32()))
	o := buildOptions{
		what: name, dir: root, pkg: "./cmd/" + folder, out: Options{Out: out}.out(),
		args: []string{"-tags=" + Tags, "-ldflags=-w"}, // no test debugs it, and linking takes half the time
	}
	if race {
		dir = filepath.Join(dir, "race")
		o.what += " with the race detector"
		o.args, o.env = append(o.args, "-race"), []string{"CGO_ENABLED=1"}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", cacheError(dir, err)
	}
	o.target = filepath.Join(dir, name)
	if os.Getenv(BuiltVariable) != "" && !race {
		return o.target, nil
	}
	return o.target, goBuild(ctx, o)
}
