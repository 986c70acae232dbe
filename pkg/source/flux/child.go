package flux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// BuildArgument is the argument that makes the operator the process of a build: [ServeBuild].
const BuildArgument = "build-kustomization"

// Bounds on the process of a build. No build of kustomize can be canceled, and a few kilobytes of patches take hours.
const (
	// maxBuildCPU is the processor time, and maxBuildTime bounds the time on a machine that gives it none.
	maxBuildCPU  = 30 * time.Second
	maxBuildTime = 3 * time.Minute
	// maxBuildMemory is the memory. From three quarters on, garbage is collected more often.
	maxBuildMemory = 256 << 20
	// maxBuilt is the size of the answer.
	maxBuilt = 64 << 20
	// checkEvery is the time between two checks of the bounds.
	checkEvery = 50 * time.Millisecond
)

// Builder builds the kustomization of a directory in the artifact below root.
type Builder func(ctx context.Context, root, dir string, k *v1alpha1.Kustomize, vars source.Variables) ([]source.Text, error)

// NewBuilder returns the Builder that starts a process for each build, one at a time, with bounds on its processor time and memory. The
// process is the program itself with BuildArgument.
func NewBuilder() Builder {
	one := make(chan struct{}, 1)
	return func(ctx context.Context, root, dir string, k *v1alpha1.Kustomize, vars source.Variables) ([]source.Text, error) {
		select {
		case one <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-one }()
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errProcess, err)
		}
		return buildApart(ctx, program, buildJob{Root: root, Dir: dir, Kustomize: k, Variables: vars, CPU: maxBuildCPU, Memory: maxBuildMemory})
	}
}

// errProcess is the error of a build whose process failed: not the fault of the kustomization.
var errProcess = errors.New("the process of the build has failed, and is started again later")

// buildJob is the input of the process of a build.
type buildJob struct {
	Root, Dir string
	Kustomize *v1alpha1.Kustomize
	// Variables are without values, and Values are these: JSON has another text for a value that is none.
	Variables source.Variables
	Values    map[string][]byte
	// CPU and Memory are the bounds of the process, in bytes.
	CPU    time.Duration
	Memory int64
}

// built is the output of the process of a build. Error is the error of the build.
type built struct {
	Error string
	Texts []builtText
	// Files are the texts of the files of the origins.
	Files []string
}

// builtText is a text; File is the index of the file of its origin, -1 if it has none.
type builtText struct {
	Label, Text string
	Sensitive   bool
	File        int
	Position    manifest.Position
}

// buildApart builds in a process of its own.
func buildApart(ctx context.Context, program string, job buildJob) ([]source.Text, error) {
	ctx, cancel := context.WithTimeout(ctx, maxBuildTime)
	defer cancel()
	job.Values = make(map[string][]byte, len(job.Variables.Values))
	for name, value := range job.Variables.Values {
		job.Values[name] = []byte(value)
	}
	job.Variables.Values = nil
	input, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("encode the build: %w", err)
	}
	output := &bounded{}
	command := exec.CommandContext(ctx, program, BuildArgument)
	command.Env = []string{"GOMAXPROCS=1", "TMPDIR=" + os.TempDir()} // and no credentials
	command.Stdin, command.Stdout = bytes.NewReader(input), output
	if err = command.Run(); output.err != nil {
		return nil, output.err
	}
	answer := built{}
	if decoded := json.Unmarshal(output.kept.Bytes(), &answer); decoded != nil || answer.Error == "" && err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it takes more than %s", maxBuildTime)
		}
		return nil, fmt.Errorf("%w: %w", errProcess, errors.Join(err, decoded))
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	texts := make([]source.Text, 0, len(answer.Texts))
	for _, one := range answer.Texts {
		text := source.Text{Label: one.Label, Text: one.Text, Sensitive: one.Sensitive}
		if one.File >= 0 && one.File < len(answer.Files) {
			text.Origin = &source.Origin{Text: answer.Files[one.File], Position: one.Position}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// bounded keeps at most maxBuilt bytes.
type bounded struct {
	kept bytes.Buffer
	err  error
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxBuilt {
		b.err = fmt.Errorf("the kustomization makes more than %d bytes: split it", maxBuilt)
		return 0, b.err
	}
	return b.kept.Write(p)
}

// ServeBuild is the process of a build: it reads a build, writes its outcome, and returns the exit code. It ends the process when the build exceeds
// a bound.
func ServeBuild(in io.Reader, out io.Writer) int {
	var mu sync.Mutex // guards out
	answer := func(b built) {
		mu.Lock()
		_ = json.NewEncoder(out).Encode(b)
	}
	job := buildJob{}
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		answer(built{Error: "decode the build: " + err.Error()})
		return 1
	}
	job.Variables.Values = make(map[string]string, len(job.Values))
	for name, value := range job.Values {
		job.Variables.Values[name] = string(value)
	}
	http.DefaultTransport = offline{}
	debug.SetMemoryLimit(job.Memory / 4 * 3)
	go func() {
		for range time.Tick(checkEvery) {
			if why := job.exceeded(); why != "" {
				answer(built{Error: why})
				os.Exit(1)
			}
		}
	}()
	texts, err := build(job.Root, job.Dir, job.Kustomize, job.Variables)
	if err != nil {
		answer(built{Error: err.Error()})
		return 0
	}
	b, files := built{}, map[string]int{}
	for _, text := range texts {
		one := builtText{Label: text.Label, Text: text.Text, Sensitive: text.Sensitive, File: -1}
		if text.Origin != nil {
			index, known := files[text.Origin.Text]
			if !known {
				index = len(b.Files)
				files[text.Origin.Text] = index
				b.Files = append(b.Files, text.Origin.Text)
			}
			one.File, one.Position = index, text.Origin.Position
		}
		b.Texts = append(b.Texts, one)
	}
	answer(b)
	return 0
}

// offline refuses all requests of the process of a build: kustomize may read a path as a URL where the guard does not.
type offline struct{}

// RoundTrip implements http.RoundTripper.
func (offline) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is remote: the files of a kustomization must be in its artifact", r.URL.Host)
}

// exceeded returns the bound that the process exceeds; empty for none.
func (j buildJob) exceeded() string {
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil && time.Duration(usage.Utime.Nano()+usage.Stime.Nano()) > j.CPU {
		return fmt.Sprintf("the build takes more than %s of processor time: use fewer patches, or split the kustomization", j.CPU)
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	if samples[0].Value.Uint64()-samples[1].Value.Uint64() > uint64(j.Memory) { //nolint:gosec // it is a positive constant
		return fmt.Sprintf("the build takes more than %d MiB of memory: split the kustomization", j.Memory>>20)
	}
	return ""
}
