package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// memoryLimitVariable is the environment variable that holds the memory limit of the
	// container in bytes: config/manager sets it from resources.limits.memory.
	memoryLimitVariable = "MEMORY_LIMIT"
	// memoryShare is the part of it, in percent, up to which the garbage collector lets
	// the heap grow. The rest is for what the Go runtime does not count.
	memoryShare = 90
)

// limitMemory has the garbage collector run often enough to stay within the memory limit
// of the container. GOMEMLIMIT, which the Go runtime reads itself, goes first. The
// number of processors needs no such setting: the runtime reads the CPU limit of the
// container since Go 1.25.
func limitMemory() error {
	text := os.Getenv(memoryLimitVariable)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("the environment variable %s is %q: set it to a number of bytes, or remove it", memoryLimitVariable, text)
	}
	debug.SetMemoryLimit(limit / 100 * memoryShare)
	return nil
}
