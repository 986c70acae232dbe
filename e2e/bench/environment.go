package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// environment is what the figures depend on. What the machine does not know of itself is empty.
type environment struct {
	// Kubernetes is the version of the API server, Go that of the programs, and Commit that of the checkout.
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Commit     string `json:"commit"`
	// Operator is the executable that was measured, if it was not built from the checkout.
	Operator string `json:"operator,omitempty"`
	// Platform is the operating system and the architecture, CPU the model, and Memory in bytes.
	Platform string `json:"platform"`
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	Memory   uint64 `json:"memoryBytes"`
}

// newEnvironment reads what is known of the machine and of the checkout.
func newEnvironment(ctx context.Context, kubernetes, operator string) environment {
	e := environment{
		Kubernetes: kubernetes, Go: runtime.Version(), Operator: operator,
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
	}
	if root, err := testenv.Root(); err == nil {
		git := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*")
		git.Dir = root
		if out, err := git.Output(); err == nil {
			e.Commit = strings.TrimSpace(string(out))
		}
	}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
			e.CPU = cpus[0].ModelName
		}
		if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
			e.Memory = *memory.MemTotalBytes
		}
	}
	return e
}

// String is the environment in one line.
func (e environment) String() string {
	text := fmt.Sprintf("Kubernetes %s, %s, %s, %d CPUs", e.Kubernetes, e.Go, e.Platform, e.CPUs)
	if e.CPU != "" {
		text += " (" + e.CPU + ")"
	}
	if e.Memory > 0 {
		text += fmt.Sprintf(", %.0f GiB", float64(e.Memory)/(1<<30))
	}
	if e.Commit != "" {
		text += ", commit " + e.Commit
	}
	if e.Operator != "" {
		text += ", operator " + e.Operator
	}
	return text
}
